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
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kBinaryLogarithmOfE = 1.44269504088896341f;

// One thread's working memory for the query rows of a tile: of one kv head, or of several where rows are few.
struct Scratch {
    float *query, *scores, *keys, *values, *out, *total;
    float *top, *sum, *shrink, *total_top, *total_sum;  // `sum` has sixteen lanes a row
    float* lanes;  // sixteen a row, for the largest of a block
    // Over integer pages: the query's codes and scales, the weights' codes and what one of a row stands for.
    int16_t *query_codes, *weights;
    float *query_scales, *unit;

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
        sum = take(rows * kLanes);
        shrink = take(rows);
        lanes = take(rows * kLanes);
        total_top = take(rows);
        total_sum = take(rows);
        query_codes = reinterpret_cast<int16_t*>(take(rows * d / 2));
        weights = reinterpret_cast<int16_t*>(take(rows * kBlockTokens / 2));
        query_scales = take(rows);
        unit = take(rows);
    }

    // The same memory from another row on.
    Scratch from_row(int row, int head_dim) const {
        Scratch moved = *this;
        moved.query += row * head_dim;
        moved.scores += row * kBlockTokens;
        moved.out += row * head_dim;
        moved.query_codes += row * head_dim;
        moved.weights += row * kBlockTokens;
        moved.sum += row * kLanes;
        moved.lanes += row * kLanes;
        for (float** each : {&moved.top, &moved.shrink, &moved.query_scales, &moved.unit}) *each += row;
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

// Copy the query rows of `heads` kv heads from `kv_head` on, one head's rows after the other, for scores in powers of two.
inline void gather_query(const Tile& tile, int kv_head, int heads, const AttentionBuffers& buffers, const Scratch& s) {
    const size_t width = static_cast<size_t>(tile.shape.group() * tile.shape.head_dim);
    float* out = s.query;
    for (int head = kv_head; head < kv_head + heads; ++head) {
        for (int i = 0; i < tile.tokens; ++i) {
            const float* q = buffers.query + static_cast<size_t>(tile.rows[i].token) * buffers.query_stride +
                             static_cast<size_t>(head) * width;
            for (size_t d = 0; d < width; d += kLanes) store(out + d, mul(load(q + d), splat(kBinaryLogarithmOfE)));
            out += width;
        }
    }
}

// The gathered rows as codes, for integer pages.
inline void round_query(int rows, int head_dim, const Scratch& s) {
    for (int r = 0; r < rows; ++r) {
        float* query = s.query + r * head_dim;
        make_finite(query, head_dim);
        const Rounding rounding(query, head_dim);
        s.query_scales[r] = rounding.scale;
        for (int d = 0; d < head_dim; d += kLanes) rounding.put(query + d, s.query_codes + r * head_dim + d);
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

// The scores of a row, capped; minus infinity outside [from, to).
inline void cap_and_mask(float* scores, int from, int to, float soft_cap) {
    for (int i = 0; i < kBlockVectors; ++i) {
        const int start = i * kLanes;
        f32x16 x = load(scores + start);
        if (soft_cap != 0.0f) {
            const f32x16 cap = splat(soft_cap);
            x = mul(cap, hyperbolic_tangent(div(x, cap)));
        }
        store(scores + start, keep_lanes(x, std::clamp(from - start, 0, kLanes), std::clamp(to - start, 0, kLanes),
                                         splat(kMinusInfinity)));
    }
}

inline f32x16 largest_of_block(const f32x16 x[kBlockVectors]) { return max(max(x[0], x[1]), max(x[2], x[3])); }

// The new tops of the rows [first, last); in `shrink` what the results so far are to be multiplied by.
inline void raise_tops(const Tile& tile, int start, int first, int last, const Scratch& s) {
    const float soft_cap = tile.shape.soft_cap * kBinaryLogarithmOfE;
    for (int r = first; r < last; ++r) {
        float* scores = s.scores + r * kBlockTokens;
        const int from = tile.row(r).first - start, to = tile.row(r).last - start;
        if (from > 0 || to < kBlockTokens || soft_cap != 0.0f) cap_and_mask(scores, from, to, soft_cap);
        const f32x16 x[kBlockVectors] = {load(scores), load(scores + kLanes), load(scores + 2 * kLanes),
                                         load(scores + 3 * kLanes)};
        store(s.lanes + r * kLanes, largest_of_block(x));
    }
    for (int r = first; r < last; r += kLanes) {
        const f32x16 old = load(s.top + r);
        // A row that has seen nothing yet has a top nevertheless, which can be subtracted.
        const f32x16 top = max(max(old, splat(kLowest)), largest_of_rows(s.lanes + r * kLanes));
        store(s.shrink + r, power_of_two(sub(old, top)));
        store(s.top + r, keep_lanes(top, 0, std::min(kLanes, last - r), old));
    }
}

// Turn the scores of a row into weights, and take them into its sum.
inline void weigh_scores(int r, f32x16 x[kBlockVectors], const Scratch& s) {
    const f32x16 top = splat(s.top[r]);
#pragma GCC unroll 4
    for (int i = 0; i < kBlockVectors; ++i) x[i] = power_of_two(sub(load(s.scores + r * kBlockTokens + i * kLanes), top));
    float* sum = s.sum + r * kLanes;
    store(sum, fma(load(sum), splat(s.shrink[r]), add(add(x[0], x[1]), add(x[2], x[3]))));
}

// The sum of a row's weights.
inline float sum_of(int r, const Scratch& s) { return sum_lanes(load(s.sum + r * kLanes)); }

inline void soften_rows(const Tile& tile, int start, int first, int last, const Scratch& s) {
    raise_tops(tile, start, first, last, s);
    for (int r = first; r < last; ++r) {
        f32x16 x[kBlockVectors];
        weigh_scores(r, x, s);
#pragma GCC unroll 4
        for (int i = 0; i < kBlockVectors; ++i) store(s.scores + r * kBlockTokens + i * kLanes, x[i]);
    }
}

}  // namespace sgrt
