// Lanes in one 512-bit register; int8 products by VNNI.
#pragma once

#include <immintrin.h>

namespace sgrt {

constexpr const char* kVectorName = "AVX-512 VNNI";
constexpr int kMaxTokens = 16;  // float accumulators that stay in registers beside the weights
constexpr int kRowBlock = 8;    // attention rows at once

using f32x16 = __m512;
using i32x16 = __m512i;
using u8x64 = __m512i;

inline f32x16 load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, f32x16 x) { _mm512_storeu_ps(p, x); }
inline f32x16 splat(float x) { return _mm512_set1_ps(x); }
inline f32x16 add(f32x16 a, f32x16 b) { return _mm512_add_ps(a, b); }
inline f32x16 sub(f32x16 a, f32x16 b) { return _mm512_sub_ps(a, b); }
inline f32x16 mul(f32x16 a, f32x16 b) { return _mm512_mul_ps(a, b); }
inline f32x16 div(f32x16 a, f32x16 b) { return _mm512_div_ps(a, b); }
inline f32x16 max(f32x16 a, f32x16 b) { return _mm512_max_ps(a, b); }
inline f32x16 min(f32x16 a, f32x16 b) { return _mm512_min_ps(a, b); }
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) { return _mm512_fmadd_ps(a, b, c); }
inline f32x16 absolute(f32x16 x) { return _mm512_abs_ps(x); }
inline f32x16 select_less(f32x16 x, f32x16 bound, f32x16 yes, f32x16 no) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, bound, _CMP_LT_OQ), no, yes);
}
// Lanes [from, to) of x, `fill` elsewhere; 0 <= from, to <= 16.
inline f32x16 keep_lanes(f32x16 x, int from, int to, f32x16 fill) {
    const unsigned mask = ((1u << to) - 1u) & ~((1u << from) - 1u);
    return _mm512_mask_blend_ps(static_cast<__mmask16>(mask), fill, x);
}

inline i32x16 round_to_int(f32x16 x) {
    return _mm512_cvt_roundps_epi32(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline f32x16 to_float(i32x16 x) { return _mm512_cvtepi32_ps(x); }
inline i32x16 zero_int() { return _mm512_setzero_si512(); }
inline i32x16 splat_int(int32_t x) { return _mm512_set1_epi32(x); }
inline i32x16 add_int(i32x16 a, i32x16 b) { return _mm512_add_epi32(a, b); }
template <int kBits>
inline i32x16 shift_left(i32x16 x) {
    return _mm512_slli_epi32(x, kBits);
}
template <int kBits>
inline i32x16 shift_right(i32x16 x) {  // the sign is kept
    return _mm512_srai_epi32(x, kBits);
}
inline i32x16 and_int(i32x16 a, i32x16 b) { return _mm512_and_si512(a, b); }
inline i32x16 or_int(i32x16 a, i32x16 b) { return _mm512_or_si512(a, b); }
inline f32x16 as_float(i32x16 x) { return _mm512_castsi512_ps(x); }
inline i32x16 as_int(f32x16 x) { return _mm512_castps_si512(x); }
inline i32x16 load_u8_int(const uint8_t* p) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline f32x16 load_f16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline f32x16 load_bf16(const uint16_t* p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline f32x16 load_u8(const uint8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline f32x16 load_i8(const int8_t* p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
// Values must lie in [-128, 127].
inline void store_i8(int8_t* p, i32x16 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
}

// Values must fit 16 bits.
inline void store_i16(int16_t* p, i32x16 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(x));
}
// Sixteen pairs of int16, and one pair in every lane.
inline i32x16 load_pairs(const int16_t* p) { return _mm512_loadu_si512(p); }
inline i32x16 splat_pair(const int16_t* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return _mm512_set1_epi32(pair);
}
// acc[lane] += x[lane][0] * y[lane][0] + x[lane][1] * y[lane][1]. By name: of two dozen sums written by the intrinsic
// GCC 12 keeps half in memory, and the kernels take half as long again.
inline i32x16 dot_pairs(i32x16 acc, i32x16 x, i32x16 y) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y));
    return acc;
}

inline u8x64 load_bytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline u8x64 low_nibbles(u8x64 x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
inline u8x64 high_nibbles(u8x64 x) {
    return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(15));
}
// acc[lane] += sum over b of weights[4 lane + b] * four[b]
inline i32x16 dot(i32x16 acc, u8x64 weights, const int8_t* four) {
    int32_t packed;
    std::memcpy(&packed, four, sizeof packed);
    return _mm512_dpbusd_epi32(acc, weights, _mm512_set1_epi32(packed));
}

inline f32x16 fold8(f32x16 x) { return _mm512_shuffle_f32x4(x, x, 0x4e); }
inline f32x16 fold4(f32x16 x) { return _mm512_shuffle_f32x4(x, x, 0xb1); }
inline f32x16 fold2(f32x16 x) { return _mm512_permute_ps(x, 0x4e); }
inline f32x16 fold1(f32x16 x) { return _mm512_permute_ps(x, 0xb1); }
inline float sum_lanes(f32x16 x) {
    x = add(x, fold8(x));
    x = add(x, fold4(x));
    x = add(x, fold2(x));
    x = add(x, fold1(x));
    return _mm512_cvtss_f32(x);
}
inline float max_lanes(f32x16 x) {
    x = max(x, fold8(x));
    x = max(x, fold4(x));
    x = max(x, fold2(x));
    x = max(x, fold1(x));
    return _mm512_cvtss_f32(x);
}

// Lane i of the result is the largest lane of rows[i], sixteen rows of sixteen: halves of two rows become one vector, and
// so on, which takes three instructions for a pair where one row after the other would take eight for each.
inline f32x16 largest_of_rows(const float* rows) {
    f32x16 r[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
        const f32x16 a = load(rows + i * 16), b = load(rows + (i + 8) * 16);
        r[i] = max(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xee));
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i)
        r[i] = max(_mm512_shuffle_f32x4(r[i], r[i + 4], 0x88), _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd));
    for (int i = 0; i < 4; i += 2) r[i] = max(_mm512_unpacklo_ps(r[i], r[i + 1]), _mm512_unpackhi_ps(r[i], r[i + 1]));
    const f32x16 mixed = max(_mm512_shuffle_ps(r[0], r[2], 0x44), _mm512_shuffle_ps(r[0], r[2], 0xee));
    return _mm512_shuffle_f32x4(mixed, mixed, 0xd8);
}

// r[i] lane j becomes r[j] lane i.
inline void transpose(f32x16 r[16]) {
    __m512 t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]);
        const __m512d c = _mm512_castps_pd(t[i + 2]), d = _mm512_castps_pd(t[i + 3]);
        r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

// Sixteen pairs of bf16 (low half first) as two vectors of float.
inline void split_bf16_pairs(f32x16 pairs, f32x16& first, f32x16& second) {
    const __m512i bits = _mm512_castps_si512(pairs);
    first = _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
    second = _mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

inline void pause() { _mm_pause(); }

}  // namespace sgrt
