// Lanes in two 256-bit registers; int8 products by widening to 16 bits, which is exact.
#pragma once

#include <immintrin.h>

namespace sgrt {

constexpr const char* kVectorName = "AVX2";
constexpr int kMaxTokens = 4;
constexpr int kRowBlock = 2;

struct f32x16 {
    __m256 a, b;
};
struct i32x16 {
    __m256i a, b;
};
struct u8x64 {
    __m256i a, b;
};

inline f32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, f32x16 x) {
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
inline f32x16 splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline f32x16 add(f32x16 x, f32x16 y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline f32x16 sub(f32x16 x, f32x16 y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
inline f32x16 mul(f32x16 x, f32x16 y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline f32x16 div(f32x16 x, f32x16 y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline f32x16 max(f32x16 x, f32x16 y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline f32x16 min(f32x16 x, f32x16 y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
inline f32x16 fma(f32x16 x, f32x16 y, f32x16 z) {
    return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
inline f32x16 absolute(f32x16 x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
inline f32x16 select_less(f32x16 x, f32x16 bound, f32x16 yes, f32x16 no) {
    return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, bound.a, _CMP_LT_OQ)),
            _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, bound.b, _CMP_LT_OQ))};
}
inline f32x16 keep_lanes(f32x16 x, int from, int to, f32x16 fill) {
    const __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i high = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
    const __m256i start = _mm256_set1_epi32(from - 1), stop = _mm256_set1_epi32(to);
    const auto inside = [&](__m256i lane) {
        return _mm256_castsi256_ps(
            _mm256_and_si256(_mm256_cmpgt_epi32(lane, start), _mm256_cmpgt_epi32(stop, lane)));
    };
    return {_mm256_blendv_ps(fill.a, x.a, inside(low)), _mm256_blendv_ps(fill.b, x.b, inside(high))};
}

inline i32x16 round_to_int(f32x16 x) {  // the default rounding mode: to nearest, ties to even
    return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)};
}
inline f32x16 to_float(i32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
inline i32x16 zero_int() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
inline i32x16 splat_int(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline i32x16 add_int(i32x16 x, i32x16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
template <int kBits>
inline i32x16 shift_left(i32x16 x) {
    return {_mm256_slli_epi32(x.a, kBits), _mm256_slli_epi32(x.b, kBits)};
}
template <int kBits>
inline i32x16 shift_right(i32x16 x) {  // the sign is kept
    return {_mm256_srai_epi32(x.a, kBits), _mm256_srai_epi32(x.b, kBits)};
}
inline i32x16 and_int(i32x16 x, i32x16 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
inline i32x16 or_int(i32x16 x, i32x16 y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
inline f32x16 as_float(i32x16 x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
inline i32x16 as_int(f32x16 x) { return {_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
inline i32x16 load_u8_int(const uint8_t* p) {
    const auto eight = [](const uint8_t* from) {
        return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
    };
    return {eight(p), eight(p + 8)};
}

inline __m128i load_half(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline f32x16 load_f16(const uint16_t* p) {
    return {_mm256_cvtph_ps(load_half(p)), _mm256_cvtph_ps(load_half(p + 8))};
}
inline f32x16 load_bf16(const uint16_t* p) {
    const auto widen = [](const uint16_t* q) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_half(q)), 16));
    };
    return {widen(p), widen(p + 8)};
}
inline f32x16 load_u8(const uint8_t* p) {
    const __m128i bytes = load_half(p);
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline f32x16 load_i8(const int8_t* p) {
    const __m128i bytes = load_half(p);
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes)),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)))};
}
inline void store_i8(int8_t* p, i32x16 x) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

inline void store_i16(int16_t* p, i32x16 x) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
}
inline i32x16 load_pairs(const int16_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 16))};
}
inline i32x16 splat_pair(const int16_t* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return splat_int(pair);
}
inline i32x16 dot_pairs(i32x16 acc, i32x16 x, i32x16 y) {
    return {_mm256_add_epi32(acc.a, _mm256_madd_epi16(x.a, y.a)), _mm256_add_epi32(acc.b, _mm256_madd_epi16(x.b, y.b))};
}

inline u8x64 load_bytes(const uint8_t* p) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
inline u8x64 low_nibbles(u8x64 x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(x.a, mask), _mm256_and_si256(x.b, mask)};
}
inline u8x64 high_nibbles(u8x64 x) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(_mm256_srli_epi16(x.a, 4), mask), _mm256_and_si256(_mm256_srli_epi16(x.b, 4), mask)};
}
// maddubs would saturate at 2 * 255 * 127: even and odd bytes go through 16-bit products instead, which cannot.
inline __m256i dot_half(__m256i acc, __m256i weights, __m256i values) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(weights, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(values, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(weights, 8), _mm256_srai_epi16(values, 8));
    return _mm256_add_epi32(acc, _mm256_add_epi32(even, odd));
}
inline i32x16 dot(i32x16 acc, u8x64 weights, const int8_t* four) {
    int32_t packed;
    std::memcpy(&packed, four, sizeof packed);
    const __m256i values = _mm256_set1_epi32(packed);
    return {dot_half(acc.a, weights.a, values), dot_half(acc.b, weights.b, values)};
}

inline float sum_lanes(f32x16 x) {
    const __m256 eight = _mm256_add_ps(x.a, x.b);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_permute_ps(four, 0x4e));
    return _mm_cvtss_f32(_mm_add_ps(four, _mm_permute_ps(four, 0xb1)));
}
inline float max_lanes(f32x16 x) {
    const __m256 eight = _mm256_max_ps(x.a, x.b);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_permute_ps(four, 0x4e));
    return _mm_cvtss_f32(_mm_max_ps(four, _mm_permute_ps(four, 0xb1)));
}

inline f32x16 largest_of_rows(const float* rows) {
    float largest[16];
    for (int i = 0; i < 16; ++i) largest[i] = max_lanes(load(rows + i * 16));
    return load(largest);
}

inline void transpose(f32x16 r[16]) {
    float block[16][16], turned[16][16];
    for (int i = 0; i < 16; ++i) store(block[i], r[i]);
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) turned[j][i] = block[i][j];
    for (int i = 0; i < 16; ++i) r[i] = load(turned[i]);
}

inline void split_bf16_pairs(f32x16 pairs, f32x16& first, f32x16& second) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(0xffff0000u)));
    const auto shifted = [](__m256 x) {
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x), 16));
    };
    first = {shifted(pairs.a), shifted(pairs.b)};
    second = {_mm256_and_ps(pairs.a, mask), _mm256_and_ps(pairs.b, mask)};
}

inline void pause() { _mm_pause(); }

}  // namespace sgrt
