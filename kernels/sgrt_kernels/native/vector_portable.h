// Lanes in a plain array: standard C++ that any compiler can vectorize.
#pragma once

namespace sgrt {

constexpr const char* kVectorName = "portable C++";
constexpr int kMaxTokens = 4;
constexpr int kRowBlock = 2;

struct f32x16 {
    float lane[16];
};
struct i32x16 {
    int32_t lane[16];
};
struct u8x64 {
    uint8_t byte[64];
};

template <typename Result, typename Function>
inline Result each(Function function) {
    Result result;
    for (int i = 0; i < 16; ++i) result.lane[i] = function(i);
    return result;
}

inline f32x16 load(const float* p) {
    return each<f32x16>([&](int i) { return p[i]; });
}
inline void store(float* p, f32x16 x) { std::memcpy(p, x.lane, sizeof x.lane); }
inline f32x16 splat(float x) {
    return each<f32x16>([&](int) { return x; });
}
inline f32x16 add(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline f32x16 sub(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline f32x16 mul(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline f32x16 div(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return a.lane[i] / b.lane[i]; });
}
inline f32x16 max(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline f32x16 min(f32x16 a, f32x16 b) {
    return each<f32x16>([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline f32x16 fma(f32x16 a, f32x16 b, f32x16 c) {
    return each<f32x16>([&](int i) { return __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]); });
}
inline f32x16 absolute(f32x16 x) {
    return each<f32x16>([&](int i) { return __builtin_fabsf(x.lane[i]); });
}
inline f32x16 select_less(f32x16 x, f32x16 bound, f32x16 yes, f32x16 no) {
    return each<f32x16>([&](int i) { return x.lane[i] < bound.lane[i] ? yes.lane[i] : no.lane[i]; });
}
inline f32x16 keep_lanes(f32x16 x, int from, int to, f32x16 fill) {
    return each<f32x16>([&](int i) { return i >= from && i < to ? x.lane[i] : fill.lane[i]; });
}

inline i32x16 round_to_int(f32x16 x) {  // the default rounding mode: to nearest, ties to even
    return each<i32x16>([&](int i) { return static_cast<int32_t>(__builtin_nearbyintf(x.lane[i])); });
}
inline f32x16 to_float(i32x16 x) {
    return each<f32x16>([&](int i) { return static_cast<float>(x.lane[i]); });
}
inline i32x16 splat_int(int32_t x) {
    return each<i32x16>([&](int) { return x; });
}
inline i32x16 zero_int() { return splat_int(0); }
inline i32x16 add_int(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return a.lane[i] + b.lane[i]; });
}
template <int kBits>
inline i32x16 shift_left(i32x16 x) {
    return each<i32x16>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(x.lane[i]) << kBits); });
}
template <int kBits>
inline i32x16 shift_right(i32x16 x) {  // the sign is kept
    return each<i32x16>([&](int i) { return x.lane[i] >> kBits; });
}
inline i32x16 and_int(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return a.lane[i] & b.lane[i]; });
}
inline i32x16 or_int(i32x16 a, i32x16 b) {
    return each<i32x16>([&](int i) { return a.lane[i] | b.lane[i]; });
}
inline i32x16 as_int(f32x16 x) {
    i32x16 result;
    std::memcpy(result.lane, x.lane, sizeof result.lane);
    return result;
}
inline i32x16 load_u8_int(const uint8_t* p) {
    return each<i32x16>([&](int i) { return static_cast<int32_t>(p[i]); });
}
inline f32x16 as_float(i32x16 x) {
    f32x16 result;
    std::memcpy(&result, &x, sizeof result);
    return result;
}

inline float from_f16(uint16_t half) {
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t exponent = (half >> 10) & 31u, fraction = half & 1023u;
    if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
        const float value = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -value : value;
    }
    const uint32_t bits = sign | ((exponent == 31 ? 255u : exponent + 112u) << 23) | (fraction << 13);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
inline f32x16 load_f16(const uint16_t* p) {
    return each<f32x16>([&](int i) { return from_f16(p[i]); });
}
inline f32x16 load_bf16(const uint16_t* p) {
    i32x16 bits = each<i32x16>([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(p[i]) << 16); });
    return as_float(bits);
}
inline f32x16 load_u8(const uint8_t* p) {
    return each<f32x16>([&](int i) { return static_cast<float>(p[i]); });
}
inline f32x16 load_i8(const int8_t* p) {
    return each<f32x16>([&](int i) { return static_cast<float>(p[i]); });
}
inline void store_i8(int8_t* p, i32x16 x) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(x.lane[i]);
}

inline void store_i16(int16_t* p, i32x16 x) {
    for (int i = 0; i < 16; ++i) p[i] = static_cast<int16_t>(x.lane[i]);
}
inline i32x16 load_pairs(const int16_t* p) {
    i32x16 result;
    std::memcpy(result.lane, p, sizeof result.lane);
    return result;
}
inline i32x16 splat_pair(const int16_t* p) {
    int32_t pair;
    std::memcpy(&pair, p, sizeof pair);
    return splat_int(pair);
}
inline i32x16 dot_pairs(i32x16 acc, i32x16 x, i32x16 y) {
    int16_t a[32], b[32];
    std::memcpy(a, x.lane, sizeof a);
    std::memcpy(b, y.lane, sizeof b);
    return each<i32x16>([&](int i) { return acc.lane[i] + a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1]; });
}

inline u8x64 load_bytes(const uint8_t* p) {
    u8x64 result;
    std::memcpy(result.byte, p, sizeof result.byte);
    return result;
}
inline u8x64 low_nibbles(u8x64 x) {
    for (int i = 0; i < 64; ++i) x.byte[i] &= 15;
    return x;
}
inline u8x64 high_nibbles(u8x64 x) {
    for (int i = 0; i < 64; ++i) x.byte[i] >>= 4;
    return x;
}
inline i32x16 dot(i32x16 acc, u8x64 weights, const int8_t* four) {
    return each<i32x16>([&](int i) {
        const uint8_t* w = weights.byte + 4 * i;
        return acc.lane[i] + w[0] * four[0] + w[1] * four[1] + w[2] * four[2] + w[3] * four[3];
    });
}

// The tree of the other variants: halves added to halves.
template <typename Function>
inline float folded(f32x16 x, Function function) {
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) x.lane[i] = function(x.lane[i], x.lane[i + half]);
    return x.lane[0];
}
inline float sum_lanes(f32x16 x) {
    return folded(x, [](float a, float b) { return a + b; });
}
inline float max_lanes(f32x16 x) {
    return folded(x, [](float a, float b) { return a > b ? a : b; });
}

inline f32x16 largest_of_rows(const float* rows) {
    float largest[16];
    for (int i = 0; i < 16; ++i) largest[i] = max_lanes(load(rows + i * 16));
    return load(largest);
}

inline void transpose(f32x16 r[16]) {
    for (int i = 0; i < 16; ++i)
        for (int j = 0; j < i; ++j) {
            const float held = r[i].lane[j];
            r[i].lane[j] = r[j].lane[i];
            r[j].lane[i] = held;
        }
}

inline void split_bf16_pairs(f32x16 pairs, f32x16& first, f32x16& second) {
    i32x16 low, high;
    for (int i = 0; i < 16; ++i) {
        uint32_t bits;
        std::memcpy(&bits, &pairs.lane[i], sizeof bits);
        low.lane[i] = static_cast<int32_t>(bits << 16);
        high.lane[i] = static_cast<int32_t>(bits & 0xffff0000u);
    }
    first = as_float(low);
    second = as_float(high);
}

inline void pause() {
#if defined(__aarch64__)
    __asm__ __volatile__("yield");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

}  // namespace sgrt
