// Results of attention over parts of a row's tokens, and how they become one.
#pragma once

#include "attention_tile.h"

namespace sgrt {

inline void clear(int rows, int head_dim, const Scratch& s) {
    std::fill_n(s.top, rows, kMinusInfinity);
    std::fill_n(s.sum, rows * kLanes, 0.0f);
    std::fill_n(s.out, rows * head_dim, 0.0f);
}

// total = total merged with part; an empty one has sum 0 and top minus infinity.
inline void merge(int head_dim, float part_top, float part_sum, const float* part, float& top, float& sum,
                  float* total) {
    if (part_sum == 0.0f) return;
    const float highest = std::max(top, part_top);
    float factors[kLanes];
    store(factors, power_of_two(keep_lanes(splat(top - highest), 0, 1, splat(part_top - highest))));
    const f32x16 keep = splat(factors[0]), gain = splat(factors[1]);
    for (int d = 0; d < head_dim; d += kLanes)
        store(total + d, fma(load(part + d), gain, mul(load(total + d), keep)));
    sum = sum * factors[0] + part_sum * factors[1];
    top = highest;
}

inline void divide(int head_dim, const float* total, float sum, float* out) {
    for (int d = 0; d < head_dim; d += kLanes) store(out + d, div(load(total + d), splat(sum)));
}

inline void clear_total(int rows, int head_dim, const Scratch& s) {
    std::fill_n(s.total_top, rows, kMinusInfinity);
    std::fill_n(s.total_sum, rows, 0.0f);
    std::fill_n(s.total, rows * head_dim, 0.0f);
}

// The totals of a whole item's rows, as results.
inline void write_results(const Tile& tile, int kv_head, const AttentionBuffers& buffers, const Scratch& s) {
    const int head_dim = tile.shape.head_dim, group = tile.shape.group();
    for (int r = 0; r < tile.height(); ++r) {
        const size_t head = static_cast<size_t>(tile.row(r).token) * static_cast<size_t>(tile.shape.heads) +
                            static_cast<size_t>(kv_head * group + r % group);
        divide(head_dim, s.total + r * head_dim, s.total_sum[r], buffers.out + head * static_cast<size_t>(head_dim));
    }
}

// Where a partial of one head begins: o[head_dim], top, sum.
inline float* partial_of(const AttentionShape& shape, float* partials, int index, int head) {
    return partials + static_cast<size_t>(index) * partial_stride(shape) +
           static_cast<size_t>(head) * static_cast<size_t>(shape.head_dim + 16);
}

// Write row `r`, of one head, as the partial of this index.
inline void store_partial(const Tile& tile, int r, int kv_head, int index, float* partials, const Scratch& s) {
    const int head_dim = tile.shape.head_dim, group = tile.shape.group();
    float* partial = partial_of(tile.shape, partials, index, kv_head * group + r % group);
    std::memcpy(partial, s.out + r * head_dim, sizeof(float) * static_cast<size_t>(head_dim));
    partial[head_dim] = s.top[r];
    partial[head_dim + 1] = sum_of(r, s);
}

}  // namespace sgrt
