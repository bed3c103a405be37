#include "page_seal.h"

#include <algorithm>
#include <cmath>

namespace sgrt {

namespace {

constexpr float kLargestKeyValue = 65504.0f;  // layout.LARGEST_KEY_VALUE
constexpr float kLargestScale = 63.0f / 32.0f, kSmallestScale = 1.0f / 128.0f;

uint32_t bits_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return bits;
}

constexpr float kSmallestBase = 0x1p-60f;  // in place of 0, so that it can divide

// The smallest bfloat16 that reaches x >= 0.
uint16_t bf16_above(float x) { return static_cast<uint16_t>((bits_of(std::max(x, kSmallestBase)) + 0xffffu) >> 16); }

float finite(float x) { return x != x ? 0.0f : std::clamp(x, -kLargestKeyValue, kLargestKeyValue); }

// |x| <= 448, to the nearest float8_e4m3fn, ties to even.
uint8_t to_e4m3(float x) {
    const uint32_t sign = bits_of(x) >> 24 & 0x80u, bits = bits_of(x) & 0x7fffffffu;
    if (bits < 0x3c800000u)  // below 2^-6: steps of 2^-9
        return static_cast<uint8_t>(sign | static_cast<uint32_t>(std::nearbyint(std::fabs(x) * 512.0f)));
    return static_cast<uint8_t>(sign | (((bits + 0x7ffffu + (bits >> 20 & 1u)) >> 20) - (120u << 3)));
}

uint8_t to_code(SealedType type, float x) {
    const float range = code_range(type), clamped = std::clamp(x, -range, range);
    if (type == SealedType::kE4m3) return to_e4m3(clamped);
    return static_cast<uint8_t>(static_cast<int8_t>(std::nearbyint(clamped)));
}

using ReadTokens = void (*)(const IntegerLayout&, const int16_t*, size_t page, int kv_head, float* out);

// One kv head of an exact page as finite floats [page_tokens][head_dim]; `read`: keys or values of integers.
void read_head(const AttentionShape& shape, const void* pages, size_t page, int kv_head, ReadTokens read, float* out) {
    if (shape.page_type == PageType::kInteger) {
        read(shape.integer_layout(), static_cast<const int16_t*>(pages), page, kv_head, out);
        return;
    }
    const size_t dim = static_cast<size_t>(shape.head_dim), tokens = static_cast<size_t>(shape.page_tokens);
    for (size_t t = 0; t < tokens; ++t) {
        const size_t at = ((page * tokens + t) * static_cast<size_t>(shape.kv_heads) + static_cast<size_t>(kv_head)) * dim;
        for (size_t d = 0; d < dim; ++d) {
            out[t * dim + d] = finite(shape.page_type == PageType::kBf16
                                          ? from_bf16(static_cast<const uint16_t*>(pages)[at + d])
                                          : static_cast<const float*>(pages)[at + d]);
        }
    }
}

float largest(const float* x, int count) {
    float top = 0.0f;
    for (int i = 0; i < count; ++i) top = std::max(top, std::fabs(x[i]));
    return top;
}

// Take the middle of every channel, in steps that fit a byte, from the keys; writes the offsets.
void center(const AttentionShape& shape, float* keys, float* middles, int8_t* offsets, float& step) {
    const int dim = shape.head_dim, tokens = shape.page_tokens;
    for (int d = 0; d < dim; ++d) {
        float low = keys[d], high = keys[d];
        for (int t = 1; t < tokens; ++t) {
            low = std::min(low, keys[t * dim + d]);
            high = std::max(high, keys[t * dim + d]);
        }
        middles[d] = (high + low) * 0.5f;
    }
    step = std::max(largest(middles, dim) / 127.0f, kSmallestBase);
    for (int d = 0; d < dim; ++d) {
        const uint8_t code = to_code(SealedType::kInt8, middles[d] / step);
        offsets[d] = static_cast<int8_t>(code);
        const float offset = static_cast<float>(offsets[d]) * step;
        for (int t = 0; t < tokens; ++t) keys[t * dim + d] -= offset;
    }
}

// Relative scale codes of the channels and their base; `scales` become the values that the codes stand for.
void encode_scales(const AttentionShape& shape, SealedType type, const float* keys, float* scales, uint8_t* codes,
                   float& base) {
    const int dim = shape.head_dim;
    std::fill_n(scales, dim, 0.0f);
    for (int t = 0; t < shape.page_tokens; ++t)
        for (int d = 0; d < dim; ++d) scales[d] = std::max(scales[d], std::fabs(keys[t * dim + d]));
    for (int d = 0; d < dim; ++d) scales[d] /= code_range(type);
    base = std::max(largest(scales, dim) / kLargestScale, kSmallestBase);
    for (int d = 0; d < dim; ++d) {
        const float relative = std::clamp(scales[d] / base, kSmallestScale, kLargestScale);
        codes[d] = static_cast<uint8_t>((bits_of(relative) - (120u << 23) + (1u << 18) - 1u) >> 18);
        const uint32_t bits = (static_cast<uint32_t>(codes[d]) << 18) + (120u << 23);
        float value;
        std::memcpy(&value, &bits, sizeof value);
        scales[d] = value * base;
    }
}

}  // namespace

size_t seal_scratch(const AttentionShape& shape) {
    return static_cast<size_t>(shape.page_tokens + 1) * static_cast<size_t>(shape.head_dim);
}

void seal_page(const AttentionShape& shape, SealedType type, const void* keys, const void* values, size_t source,
               const SgrtSealedLayer& layer, size_t target, int kv_head, float* scratch) {
    const int dim = shape.head_dim, tokens = shape.page_tokens;
    const size_t heads = static_cast<size_t>(shape.kv_heads), head = static_cast<size_t>(kv_head);
    const size_t group = target * heads + head, width = static_cast<size_t>(dim);
    float* x = scratch;
    float* scales = scratch + static_cast<size_t>(tokens) * width;
    const auto token_of = [&](int t) { return (target * static_cast<size_t>(tokens) + static_cast<size_t>(t)) * heads + head; };
    read_head(shape, keys, source, kv_head, read_page_keys, x);
    center(shape, x, scales, layer.key_offsets + group * width, layer.key_offset_scales[group]);
    encode_scales(shape, type, x, scales, layer.key_scales + group * width, layer.key_scale_bases[group]);
    for (int t = 0; t < tokens; ++t)
        for (int d = 0; d < dim; ++d) layer.keys[token_of(t) * width + static_cast<size_t>(d)] = to_code(type, x[t * dim + d] / scales[d]);
    read_head(shape, values, source, kv_head, read_page_values, x);
    for (int t = 0; t < tokens; ++t) {
        const uint16_t scale = bf16_above(largest(x + t * dim, dim) / code_range(type));
        layer.value_scales[token_of(t)] = scale;
        for (int d = 0; d < dim; ++d)
            layer.values[token_of(t) * width + static_cast<size_t>(d)] = to_code(type, x[t * dim + d] / from_bf16(scale));
    }
}

}  // namespace sgrt
