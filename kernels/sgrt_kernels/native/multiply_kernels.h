// The kernels behind multiply.h, as templates; each source file of a family instantiates its own.
#pragma once

#include "multiply.h"

namespace sgrt {

template <Kind kKind>
inline void load_quads(const uint8_t* p, u8x64 w[8]) {
    if constexpr (quad_bytes(kKind) == 256) {
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
            const u8x64 both = load_bytes(p + 64 * j);
            w[j] = low_nibbles(both);
            w[j + 4] = high_nibbles(both);
        }
    } else {
#pragma GCC unroll 8
        for (int j = 0; j < 8; ++j) w[j] = load_bytes(p + 64 * j);
    }
}

constexpr bool has_minimum(Kind kind) {
    return kind == Kind::kNibbleMinimum || kind == Kind::kNibbleSuper || kind == Kind::kByteMinimum ||
           kind == Kind::kByteSuper;
}

struct GroupScales {
    f32x16 first, second, minimum;  // `second`: of the last 16 columns, kByteSuperSigned only
};

// `scales`: the group's own, or its super-block's head.
template <Kind kKind>
inline GroupScales load_scales(const uint8_t* scales, size_t group) {
    GroupScales result;
    const auto half = [](const uint8_t* p) { return load_f16(reinterpret_cast<const uint16_t*>(p)); };
    result.first = half(scales);
    if constexpr (is_super(kKind)) {
        const uint8_t* own = scales + 64 + group % kSuperGroups * 32;
        const f32x16 d = result.first;
        if constexpr (kKind == Kind::kByteSuperSigned) {
            result.first = mul(d, load_i8(reinterpret_cast<const int8_t*>(own)));
            result.second = mul(d, load_i8(reinterpret_cast<const int8_t*>(own + 16)));
        } else {
            result.first = mul(d, load_u8(own));
            result.minimum = sub(splat(0.0f), mul(half(scales + 32), load_u8(own + 16)));
        }
    } else if constexpr (has_minimum(kKind)) {
        result.minimum = half(scales + 32);
    }
    return result;
}

// Where an integer sum starts so that the weights' offset falls out of it.
template <Kind kKind>
inline i32x16 start_of(int32_t negated) {
    if constexpr (kKind == Kind::kNibble) return shift_left<3>(splat_int(negated));
    if constexpr (kKind == Kind::kByte || kKind == Kind::kByteSuperSigned) return shift_left<7>(splat_int(negated));
    return zero_int();
}

// Integer sums of one group for some tokens, of its first 16 columns and of its last 16. Their chains of products run
// side by side: one alone would wait for each product in turn.
template <Kind kKind, int kTogether, int kWidth>
inline void integer_sums(const u8x64 w[8], const int8_t* values, const int32_t* negated, i32x16* first,
                         i32x16* second) {
#pragma GCC unroll 4
    for (int u = 0; u < kTogether; ++u) {
        if constexpr (kKind == Kind::kByteSuperSigned) {
            first[u] = start_of<kKind>(negated[kWidth + u]);
            second[u] = start_of<kKind>(negated[u] - negated[kWidth + u]);
        } else {
            first[u] = start_of<kKind>(negated[u]);
            second[u] = zero_int();
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
#pragma GCC unroll 4
        for (int u = 0; u < kTogether; ++u) {
            first[u] = dot(first[u], w[j], values + u * kGroup + 4 * j);
            second[u] = dot(second[u], w[j + 4], values + u * kGroup + 16 + 4 * j);
        }
    }
}

constexpr size_t kPrefetch = 3072;  // bytes ahead in the stream of weights
constexpr int kChains = 2;  // tokens whose integer sums are computed side by side

template <Kind kKind, int kTokens, int kWidth>
void multiply_quantized(const uint8_t* tile, int columns, const TokenRun& run, float* out) {
    constexpr int kTogether = kTokens < kChains ? kTokens : kChains;
    const size_t groups = static_cast<size_t>(columns) / kGroup;
    f32x16 acc[kTokens];
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) acc[t] = splat(0.0f);
    const int8_t* values = run.values;
    const float* token_scales = run.scales;
    const float* token_sums = run.sums;
    const int32_t* negated = run.negated;
    for (size_t g = 0; g < groups; ++g) {
        const uint8_t* quads = tile + quads_at(kKind, g);
        const uint8_t* scales = tile + scales_at(kKind, g);
        if (run.is_first) {
            for (size_t line = 0; line <= quad_bytes(kKind); line += 64) prefetch(quads + kPrefetch + line);
        }
        u8x64 w[8];
        load_quads<kKind>(quads, w);
        const GroupScales weight = load_scales<kKind>(scales, g);
#pragma GCC unroll 16
        for (int t = 0; t < kTokens; t += kTogether) {
            i32x16 first[kTogether], second[kTogether];
            integer_sums<kKind, kTogether, kWidth>(w, values + t * kGroup, negated + t, first, second);
#pragma GCC unroll 4
            for (int u = 0; u < kTogether; ++u) {
                f32x16& sum = acc[t + u];
                const f32x16 scale = splat(token_scales[t + u]);
                if constexpr (kKind == Kind::kByteSuperSigned) {
                    sum = fma(to_float(first[u]), mul(weight.first, scale), sum);
                    sum = fma(to_float(second[u]), mul(weight.second, scale), sum);
                } else {
                    sum = fma(to_float(add_int(first[u], second[u])), mul(weight.first, scale), sum);
                }
                if constexpr (has_minimum(kKind)) sum = fma(weight.minimum, splat(token_sums[t + u]), sum);
            }
        }
        values += kWidth * kGroup;
        token_scales += kWidth;
        token_sums += kWidth;
        negated += 2 * kWidth;
    }
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) store(out + t * kLanes, acc[t]);
}

template <Kind kKind>
inline f32x16 load_weights(const uint8_t* p, size_t column) {
    if constexpr (kKind == Kind::kF32) return load(reinterpret_cast<const float*>(p) + 16 * column);
    if constexpr (kKind == Kind::kF16) return load_f16(reinterpret_cast<const uint16_t*>(p) + 16 * column);
    return load_bf16(reinterpret_cast<const uint16_t*>(p) + 16 * column);
}

template <Kind kKind, int kTokens, int kWidth>
void multiply_floats(const uint8_t* tile, int columns, const TokenRun& run, float* out) {
    f32x16 acc[kTokens];
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) acc[t] = splat(0.0f);
    for (size_t k = 0; k < static_cast<size_t>(columns); ++k) {
        const f32x16 w = load_weights<kKind>(tile, k);
#pragma GCC unroll 16
        for (int t = 0; t < kTokens; ++t) {
            acc[t] = fma(w, splat(run.floats[static_cast<size_t>(t) * run.floats_stride + k]), acc[t]);
        }
    }
#pragma GCC unroll 16
    for (int t = 0; t < kTokens; ++t) store(out + t * kLanes, acc[t]);
}

template <Kind kKind, int kTokens, int kWidth>
constexpr TileKernel kernel_of() {
    if constexpr (is_quantized(kKind)) return multiply_quantized<kKind, kTokens, kWidth>;
    return multiply_floats<kKind, kTokens, kWidth>;
}

template <Kind kKind>
TileKernel kernel_for(int tokens, int width) {
    if (width == 1) return kernel_of<kKind, 1, 1>();
    switch (tokens) {
        case 1: return kernel_of<kKind, 1, kBlockRows>();
        case 2: return kernel_of<kKind, 2, kBlockRows>();
        case 4: return kernel_of<kKind, 4, kBlockRows>();
#if defined(SGRT_VECTOR_AVX512)
        case 8: return kernel_of<kKind, 8, kBlockRows>();
        case 16: return kernel_of<kKind, 16, kBlockRows>();
#endif
        default: return nullptr;
    }
}

}  // namespace sgrt
