// What the attention kernels share: working memory, a tile of query rows, the way to the pages, the softmax of a block.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "attention.h"
#include "mathematics.h"
#include "vector.h"

namespace sgrt {

constexpr int kTileRowHeads = 96;
constexpr int kBlockVectors = kBlockTokens / kLanes;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One thread's working memory for the query rows of a tile: of one kv head, or of several where rows are few.
struct Scratch {
    float *query, *scores, *keys, *values, *out, *total;
    float *top, *sum, *fresh, *shrink, *total_top, *total_sum;

    Scratch(float* memory, const AttentionShape& shape) {
        const size_t d = static_cast<size_t>(shape.head_dim), rows = kTileRowHeads + kLanes;
        const auto take = [&](size_t count) {
            float* place = memory;
            memory += (count + 15) / 16 * 16;
            return place;
        };
        query = take(rows * d);
        scores = take(rows * kBlockTokens);
        keys = take(d * kBlockTokens);
        values = take(d * kBlockTokens);
        out = take(rows * d);
        total = take(rows * d);
        top = take(rows);
        sum = take(rows);
        fresh = take(rows);
        shrink = take(rows);
        total_top = take(rows);
        total_sum = take(rows);
    }

    // The same memory from another row on.
    Scratch from_row(int row, int head_dim) const {
        Scratch moved = *this;
        moved.query += row * head_dim;
        moved.scores += row * kBlockTokens;
        moved.out += row * head_dim;
        for (float** each : {&moved.top, &moved.sum, &moved.fresh, &moved.shrink}) *each += row;
        return moved;
    }
};

// The item's query rows: row `i * group + h` is head `h` of the kv head's group, of the item's token `i`.
struct Tile {
    const AttentionShape& shape;
    const VisibleRow* rows;
    int tokens;

    int height() const { return tokens * shape.group(); }
    const VisibleRow& row(int r) const { return rows[r / shape.group()]; }
};

// Copy the query rows of `heads` kv heads from `kv_head` on, one head's rows after the other.
inline void gather_query(const Tile& tile, int kv_head, int heads, const AttentionBuffers& buffers, const Scratch& s) {
    const size_t width = static_cast<size_t>(tile.shape.group() * tile.shape.head_dim);
    float* out = s.query;
    for (int head = kv_head; head < kv_head + heads; ++head) {
        for (int i = 0; i < tile.tokens; ++i) {
            const float* q = buffers.query + static_cast<size_t>(tile.rows[i].token) * buffers.query_stride +
                             static_cast<size_t>(head) * width;
            std::memcpy(out, q, width * sizeof(float));
            out += width;
        }
    }
}

// Where a token's key and value of one kv head lie.
struct PageReader {
    const AttentionShape& shape;
    const AttentionBuffers& buffers;
    const int32_t* pages;
    int kv_head;

    // Index of the first element of the head, for the `count` tokens from `start` on.
    void elements(int start, int count, size_t* at) const {
        const size_t stride = static_cast<size_t>(shape.kv_heads) * static_cast<size_t>(shape.head_dim);
        const size_t head = static_cast<size_t>(kv_head) * static_cast<size_t>(shape.head_dim);
        int page = start / shape.page_tokens, offset = start % shape.page_tokens;
        for (int t = 0; t < count; ++page, offset = 0) {
            const size_t first = static_cast<size_t>(pages[page]) * static_cast<size_t>(shape.page_tokens);
            for (; offset < shape.page_tokens && t < count; ++offset, ++t)
                at[t] = (first + static_cast<size_t>(offset)) * stride + head;
        }
    }
};

// Turn a row's scores into weights. Leaves their sum in `fresh`, the old top minus the new one in `shrink`.
inline void soften(const Scratch& s, int row, int from, int to, float soft_cap) {
    float* scores = s.scores + row * kBlockTokens;
    if (from >= to) {  // among rows that see something of the block: this one changes nothing
        std::fill_n(scores, kBlockTokens, 0.0f);
        s.fresh[row] = s.shrink[row] = 0.0f;
        return;
    }
    f32x16 x[kBlockVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kBlockVectors; ++i) x[i] = load(scores + i * kLanes);
    if (soft_cap != 0.0f) {
        const f32x16 cap = splat(soft_cap);
        for (int i = 0; i < kBlockVectors; ++i) x[i] = mul(cap, hyperbolic_tangent(div(x[i], cap)));
    }
    if (from > 0 || to < kBlockTokens) {
        const f32x16 hidden = splat(kMinusInfinity);
        for (int i = 0; i < kBlockVectors; ++i) {
            const int start = i * kLanes;
            x[i] = keep_lanes(x[i], std::clamp(from - start, 0, kLanes), std::clamp(to - start, 0, kLanes), hidden);
        }
    }
    const float top = std::max(s.top[row], max_lanes(max(max(x[0], x[1]), max(x[2], x[3]))));
    const f32x16 anchor = splat(top);
#pragma GCC unroll 4
    for (int i = 0; i < kBlockVectors; ++i) {
        x[i] = exponential(sub(x[i], anchor));
        store(scores + i * kLanes, x[i]);
    }
    s.fresh[row] = sum_lanes(add(add(x[0], x[1]), add(x[2], x[3])));
    s.shrink[row] = s.top[row] - top;
    s.top[row] = top;
}

inline void soften_rows(const Tile& tile, int start, int first, int last, const Scratch& s) {
    for (int r = first; r < last; ++r) {
        const int from = std::max(0, tile.row(r).first - start);
        const int to = std::min(kBlockTokens, tile.row(r).last - start);
        soften(s, r, from, to, tile.shape.soft_cap);
    }
    for (int r = first; r < last; r += kLanes) store(s.shrink + r, exponential(load(s.shrink + r)));
    for (int r = first; r < last; ++r) s.sum[r] = s.sum[r] * s.shrink[r] + s.fresh[r];
}

}  // namespace sgrt
