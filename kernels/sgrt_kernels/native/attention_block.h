// Attention of many rows over one block: keys and values are laid out as floats once and read by all rows.
#pragma once

#include <type_traits>

#include "attention_tile.h"

namespace sgrt {

// keys[d][token], values[token][d] of one block, as floats; tokens from `count` on are zero in keys.
struct BlockReader {
    const PageReader& pages;

    void read(int start, int count, const Scratch& s) const {
        size_t at[kBlockTokens];
        pages.elements(start, count, at);
        if (pages.shape.page_type == PageType::kBf16) {
            read_bf16(at, count, s);
        } else {
            read_f32(at, count, s);
        }
    }

    void read_bf16(const size_t* at, int count, const Scratch& s) const {
        const auto* keys = static_cast<const uint16_t*>(pages.buffers.keys);
        const auto* values = static_cast<const uint16_t*>(pages.buffers.values);
        for (int half = 0; half < kBlockTokens; half += kLanes) {
            for (int d = 0; d < pages.shape.head_dim; d += 2 * kLanes) {
                f32x16 r[kLanes];
                for (int i = 0; i < kLanes; ++i) {
                    r[i] = half + i < count ? load(reinterpret_cast<const float*>(keys + at[half + i] + d))
                                            : splat(0.0f);
                }
                transpose(r);
                for (int j = 0; j < kLanes; ++j) {
                    f32x16 even, odd;
                    split_bf16_pairs(r[j], even, odd);
                    store(s.keys + (d + 2 * j) * kBlockTokens + half, even);
                    store(s.keys + (d + 2 * j + 1) * kBlockTokens + half, odd);
                }
            }
        }
        for (int t = 0; t < count; ++t)
            for (int d = 0; d < pages.shape.head_dim; d += kLanes)
                store(s.values + t * pages.shape.head_dim + d, load_bf16(values + at[t] + d));
    }

    void read_f32(const size_t* at, int count, const Scratch& s) const {
        const auto* keys = static_cast<const float*>(pages.buffers.keys);
        const auto* values = static_cast<const float*>(pages.buffers.values);
        for (int half = 0; half < kBlockTokens; half += kLanes) {
            for (int d = 0; d < pages.shape.head_dim; d += kLanes) {
                f32x16 r[kLanes];
                for (int i = 0; i < kLanes; ++i)
                    r[i] = half + i < count ? load(keys + at[half + i] + d) : splat(0.0f);
                transpose(r);
                for (int j = 0; j < kLanes; ++j) store(s.keys + (d + j) * kBlockTokens + half, r[j]);
            }
        }
        for (int t = 0; t < count; ++t)
            for (int d = 0; d < pages.shape.head_dim; d += kLanes)
                store(s.values + t * pages.shape.head_dim + d, load(values + at[t] + d));
    }
};

template <int kRows>
void score_rows(int head_dim, const float* query, const float* keys, float* scores) {
    f32x16 acc[kRows][kBlockVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kBlockVectors; ++i) acc[r][i] = splat(0.0f);
    for (int d = 0; d < head_dim; ++d) {
        f32x16 k[kBlockVectors];
#pragma GCC unroll 4
        for (int i = 0; i < kBlockVectors; ++i) k[i] = load(keys + d * kBlockTokens + i * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            const f32x16 q = splat(query[r * head_dim + d]);
#pragma GCC unroll 4
            for (int i = 0; i < kBlockVectors; ++i) acc[r][i] = fma(q, k[i], acc[r][i]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kBlockVectors; ++i) store(scores + r * kBlockTokens + i * kLanes, acc[r][i]);
}

template <int kRows, int kVectors>
void weigh_values(int head_dim, int count, const float* weights, const float* shrink, const float* values,
                  float* out) {
    f32x16 acc[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i)
            acc[r][i] = mul(load(out + r * head_dim + i * kLanes), splat(shrink[r]));
    for (int t = 0; t < count; ++t) {
        f32x16 v[kVectors];
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) v[i] = load(values + t * head_dim + i * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            const f32x16 p = splat(weights[r * kBlockTokens + t]);
#pragma GCC unroll 4
            for (int i = 0; i < kVectors; ++i) acc[r][i] = fma(p, v[i], acc[r][i]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) store(out + r * head_dim + i * kLanes, acc[r][i]);
}

// The same for a whole head dimension, 64 channels at a time.
template <int kRows>
void weigh_rows(int head_dim, int count, const float* weights, const float* shrink, const float* values, float* out) {
    int d = 0;
    for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes)
        weigh_values<kRows, 4>(head_dim, count, weights, shrink, values + d, out + d);
    for (; d < head_dim; d += 2 * kLanes)
        weigh_values<kRows, 2>(head_dim, count, weights, shrink, values + d, out + d);
}

// Call `step(std::integral_constant<int, rows>, first)` for sets of rows that together make up [first, last).
template <typename Step>
void by_rows(int first, int last, Step step) {
    int r = first;
    if constexpr (kRowBlock >= 6) {
        for (; r + 6 <= last; r += 6) step(std::integral_constant<int, 6>{}, r);
        for (; r + 3 <= last; r += 3) step(std::integral_constant<int, 3>{}, r);
    }
    for (; r + 2 <= last; r += 2) step(std::integral_constant<int, 2>{}, r);
    for (; r < last; ++r) step(std::integral_constant<int, 1>{}, r);
}

inline void score_all(int head_dim, const Scratch& s, int first, int last) {
    by_rows(first, last, [&](auto rows, int r) {
        score_rows<decltype(rows)::value>(head_dim, s.query + r * head_dim, s.keys, s.scores + r * kBlockTokens);
    });
}

inline void weigh_all(int head_dim, int count, const Scratch& s, int first, int last) {
    by_rows(first, last, [&](auto rows, int r) {
        weigh_rows<decltype(rows)::value>(head_dim, count, s.scores + r * kBlockTokens, s.shrink + r, s.values,
                                          s.out + r * head_dim);
    });
}

// The rows of a tile that see something of a block: [first, last).
struct SeenRows {
    int first, last;

    // They follow one another: positions rise within a tile.
    SeenRows(const Tile& tile, int start, int count) : first(0), last(tile.height()) {
        while (first < last && tile.row(first).last <= start) ++first;
        while (last > first && tile.row(last - 1).first >= start + count) --last;
    }
    bool empty() const { return first == last; }
};

inline void attend_block(const Tile& tile, int start, int count, const PageReader& reader, const Scratch& s) {
    const SeenRows rows(tile, start, count);
    if (rows.empty()) return;
    BlockReader{reader}.read(start, count, s);
    score_all(tile.shape.head_dim, s, rows.first, rows.last);
    soften_rows(tile, start, rows.first, rows.last, s);
    weigh_all(tile.shape.head_dim, count, s, rows.first, rows.last);
}

}  // namespace sgrt
