// Pages of integers: codes of 13 bits in int16 and a float scale for every token and kv head, as products of pairs read
// them.
//
// A page is [kv_heads][page_tokens / 16] tiles of sixteen tokens; a tile is rows of 64 bytes:
//
//     keys      [head_dim / 2] rows of [16 tokens][2 channels], then the scales [16] of the tokens
//     values    [8 pairs of tokens][head_dim][2 tokens], then the scales [16]
//
// An element is code * scale. 128 products of two codes, or 64 of a code and an attention weight, fit 32 bits.
#pragma once

#include <cstring>

#include "vector.h"

namespace sgrt {

constexpr int kTileTokens = 16;
constexpr float kCodeRange = 4095.0f;

// What rounds some numbers to codes: the scale is 0 where all of them are (nearly) zero.
struct Rounding {
    float scale, inverse;

    // Of `count` numbers, a multiple of 16, all of them finite.
    Rounding(const float* x, int count) {
        f32x16 magnitude = absolute(load(x));
        for (int i = kLanes; i < count; i += kLanes) magnitude = max(magnitude, absolute(load(x + i)));
        const float largest = max_lanes(magnitude);
        const bool is_zero = !(largest >= 1e-30f);
        scale = is_zero ? 0.0f : largest / kCodeRange;
        inverse = is_zero ? 0.0f : kCodeRange / largest;
    }

    // Codes of sixteen of the numbers.
    void put(const float* x, int16_t* codes) const { store_i16(codes, round_to_int(mul(load(x), splat(inverse)))); }
};

// Where tiles lie in the pages of one layer.
struct IntegerLayout {
    int page_tokens, kv_heads, head_dim;

    size_t tile_size() const { return static_cast<size_t>(head_dim / 2 + 1) * 2 * kTileTokens; }  // in codes

    // Of the tile that begins at token `offset` of a page.
    size_t tile_at(size_t page, int kv_head, int offset) const {
        const size_t tiles = static_cast<size_t>(page_tokens / kTileTokens);
        const size_t head = page * static_cast<size_t>(kv_heads) + static_cast<size_t>(kv_head);
        return (head * tiles + static_cast<size_t>(offset / kTileTokens)) * tile_size();
    }
};

// The scales of a tile.
inline const float* scales_of(const IntegerLayout& layout, const int16_t* tile) {
    return reinterpret_cast<const float*>(tile + layout.head_dim * kTileTokens);
}
inline float* scales_of(const IntegerLayout& layout, int16_t* tile) {
    return reinterpret_cast<float*>(tile + layout.head_dim * kTileTokens);
}

// Where token `token` of a tile has its code of channel `channel`.
inline int key_code_at(int token, int channel) { return (channel / 2 * kTileTokens + token) * 2 + channel % 2; }
inline int value_code_at(const IntegerLayout& layout, int token, int channel) {
    return (token / 2 * layout.head_dim + channel) * 2 + token % 2;
}

// One kv head's keys of a page as floats, [page_tokens][head_dim].
inline void read_page_keys(const IntegerLayout& layout, const int16_t* pages, size_t page, int kv_head, float* out) {
    for (int t = 0; t < layout.page_tokens; ++t) {
        const int16_t* tile = pages + layout.tile_at(page, kv_head, t);
        const float scale = scales_of(layout, tile)[t % kTileTokens];
        for (int d = 0; d < layout.head_dim; ++d)
            *out++ = static_cast<float>(tile[key_code_at(t % kTileTokens, d)]) * scale;
    }
}

// The same of its values.
inline void read_page_values(const IntegerLayout& layout, const int16_t* pages, size_t page, int kv_head, float* out) {
    for (int t = 0; t < layout.page_tokens; ++t) {
        const int16_t* tile = pages + layout.tile_at(page, kv_head, t);
        const float scale = scales_of(layout, tile)[t % kTileTokens];
        for (int d = 0; d < layout.head_dim; ++d)
            *out++ = static_cast<float>(tile[value_code_at(layout, t % kTileTokens, d)]) * scale;
    }
}

// Store one token's key and value of one kv head, [head_dim] finite numbers each. Other threads may store other tokens of
// the tile meanwhile.
inline void write_token(const IntegerLayout& layout, void* keys, void* values, size_t slot, int kv_head,
                        const float* key, const float* value) {
    const int token = static_cast<int>(slot % static_cast<size_t>(layout.page_tokens)), place = token % kTileTokens;
    const size_t at = layout.tile_at(slot / static_cast<size_t>(layout.page_tokens), kv_head, token);
    int16_t* key_tile = static_cast<int16_t*>(keys) + at;
    int16_t* value_tile = static_cast<int16_t*>(values) + at;
    const Rounding of_key(key, layout.head_dim), of_value(value, layout.head_dim);
    scales_of(layout, key_tile)[place] = of_key.scale;
    scales_of(layout, value_tile)[place] = of_value.scale;
    for (int d = 0; d < layout.head_dim; d += kLanes) {
        int16_t codes[kLanes];
        of_key.put(key + d, codes);
        for (int i = 0; i < kLanes; i += 2) std::memcpy(key_tile + key_code_at(place, d + i), codes + i, 4);
        of_value.put(value + d, codes);
        for (int i = 0; i < kLanes; ++i) value_tile[value_code_at(layout, place, d + i)] = codes[i];
    }
}

}  // namespace sgrt
