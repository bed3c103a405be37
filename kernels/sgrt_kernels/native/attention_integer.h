// Attention of one row or many over one block of integer pages, straight from the tiles.
#pragma once

#include "attention_block.h"
#include "attention_tile.h"

namespace sgrt {

constexpr int kExactChannels = 128;      // whose products of codes fit 32 bits
constexpr float kWeightRange = 8191.0f;  // 64 products of a weight and a code fit as well

// The tiles of one block and kv head. Behind the last token scales are zero.
struct IntegerBlock {
    const int16_t* keys[kBlockVectors];
    const int16_t* values[kBlockVectors];
    f32x16 key_scales[kBlockVectors], value_scales[kBlockVectors];
    int tiles;  // with tokens; those behind repeat the first

    IntegerBlock(const PageReader& reader, int start, int count) : tiles((count + kTileTokens - 1) / kTileTokens) {
        const AttentionShape& shape = reader.shape;
        const IntegerLayout layout = shape.integer_layout();
        for (int i = 0; i < kBlockVectors; ++i) {
            const int token = start + (i < tiles ? i : 0) * kTileTokens;
            const size_t page = static_cast<size_t>(reader.pages[token / shape.page_tokens]);
            const size_t at = layout.tile_at(page, reader.kv_head, token % shape.page_tokens);
            keys[i] = static_cast<const int16_t*>(reader.buffers.keys) + at;
            values[i] = static_cast<const int16_t*>(reader.buffers.values) + at;
            const int present = std::clamp(count - i * kTileTokens, 0, kTileTokens);
            key_scales[i] = keep_lanes(load(scales_of(layout, keys[i])), 0, present, splat(0.0f));
            value_scales[i] = keep_lanes(load(scales_of(layout, values[i])), 0, present, splat(0.0f));
        }
    }
};

template <int kRows>
void score_codes(const IntegerBlock& block, int head_dim, const int16_t* query, const float* query_scales,
                 float* scores) {
    for (int first = 0; first < head_dim; first += kExactChannels) {
        const int last = std::min(head_dim, first + kExactChannels);
        i32x16 acc[kRows][kBlockVectors];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < kBlockVectors; ++i) acc[r][i] = zero_int();
        for (int d = first; d < last; d += 2) {
            i32x16 k[kBlockVectors];
#pragma GCC unroll 4
            for (int i = 0; i < kBlockVectors; ++i) k[i] = load_pairs(block.keys[i] + d * kTileTokens);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                const i32x16 q = splat_pair(query + r * head_dim + d);
#pragma GCC unroll 4
                for (int i = 0; i < kBlockVectors; ++i) acc[r][i] = dot_pairs(acc[r][i], k[i], q);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < kBlockVectors; ++i) {
                float* place = scores + r * kBlockTokens + i * kLanes;
                f32x16 sum = to_float(acc[r][i]);
                if (first > 0) sum = add(load(place), sum);
                if (last == head_dim) sum = mul(mul(sum, block.key_scales[i]), splat(query_scales[r]));
                store(place, sum);
            }
    }
}

// Turn the scores of the rows into weights as codes, [rows][64]; the scales of the values are in them. `unit`: what a
// code of a row stands for.
inline void soften_to_codes(const Tile& tile, const IntegerBlock& block, int start, int first, int last,
                            const Scratch& s) {
    raise_tops(tile, start, first, last, s);
    for (int r = first; r < last; ++r) {
        f32x16 x[kBlockVectors];
        weigh_scores(r, x, s);
#pragma GCC unroll 4
        for (int i = 0; i < kBlockVectors; ++i) {
            x[i] = mul(x[i], block.value_scales[i]);
            store(s.scores + r * kBlockTokens + i * kLanes, x[i]);
        }
        store(s.lanes + r * kLanes, largest_of_block(x));
    }
    float inverse[kTileRowHeads + kLanes];
    for (int r = first; r < last; r += kLanes) {
        const f32x16 largest = largest_of_rows(s.lanes + r * kLanes);
        store(inverse + r, select_less(largest, splat(1e-30f), splat(0.0f), div(splat(kWeightRange), largest)));
        store(s.unit + r, mul(largest, splat(1.0f / kWeightRange)));
    }
    for (int r = first; r < last; ++r) {
        const f32x16 factor = splat(inverse[r]);
#pragma GCC unroll 4
        for (int i = 0; i < kBlockVectors; ++i) {
            const int place = r * kBlockTokens + i * kLanes;
            store_i16(s.weights + place, round_to_int(mul(load(s.scores + place), factor)));
        }
    }
}

template <int kRows, int kVectors>
void weigh_codes(const IntegerBlock& block, int head_dim, int channel, const int16_t* weights, const float* unit,
                 const float* shrink, float* out) {
    i32x16 acc[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) acc[r][i] = zero_int();
    for (int tile = 0; tile < block.tiles; ++tile) {
        const int16_t* values = block.values[tile] + channel * 2;
        for (int t = 0; t < kTileTokens; t += 2) {
            i32x16 v[kVectors];
#pragma GCC unroll 4
            for (int i = 0; i < kVectors; ++i) v[i] = load_pairs(values + t * head_dim + i * 2 * kLanes);
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
                const i32x16 p = splat_pair(weights + r * kBlockTokens + tile * kTileTokens + t);
#pragma GCC unroll 4
                for (int i = 0; i < kVectors; ++i) acc[r][i] = dot_pairs(acc[r][i], v[i], p);
            }
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) {
            float* place = out + r * head_dim + channel + i * kLanes;
            store(place, fma(to_float(acc[r][i]), splat(unit[r]), mul(load(place), splat(shrink[r]))));
        }
}

template <int kRows>
void weigh_code_rows(const IntegerBlock& block, int head_dim, int r, const Scratch& s) {
    int d = 0;
    for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes)
        weigh_codes<kRows, 4>(block, head_dim, d, s.weights + r * kBlockTokens, s.unit + r, s.shrink + r,
                              s.out + r * head_dim);
    for (; d < head_dim; d += 2 * kLanes)
        weigh_codes<kRows, 2>(block, head_dim, d, s.weights + r * kBlockTokens, s.unit + r, s.shrink + r,
                              s.out + r * head_dim);
}

inline void attend_integer_block(const Tile& tile, int start, int count, const PageReader& reader, const Scratch& s) {
    const SeenRows rows(tile, start, count);
    if (rows.empty()) return;
    const IntegerBlock block(reader, start, count);
    const int head_dim = tile.shape.head_dim;
    by_rows(rows.first, rows.last, [&](auto set, int r) {
        score_codes<decltype(set)::value>(block, head_dim, s.query_codes + r * head_dim, s.query_scales + r,
                                          s.scores + r * kBlockTokens);
    });
    soften_to_codes(tile, block, start, rows.first, rows.last, s);
    by_rows(rows.first, rows.last,
            [&](auto set, int r) { weigh_code_rows<decltype(set)::value>(block, head_dim, r, s); });
}

// A block of exact pages of any type.
inline void attend_exact_block(const Tile& tile, int start, int count, const PageReader& reader, const Scratch& s) {
    if (tile.shape.page_type == PageType::kInteger) attend_integer_block(tile, start, count, reader, s);
    else attend_block(tile, start, count, reader, s);
}

}  // namespace sgrt
