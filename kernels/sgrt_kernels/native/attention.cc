#include "attention.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "mathematics.h"
#include "vector.h"

namespace sgrt {

namespace {

constexpr int kTileRowHeads = 96;
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// One thread's working memory for a tile of `rows` query rows of one kv head.
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
};

// keys[d][32 tokens], values[token][d] of one block, as floats; tokens from `count` on are zero in keys.
struct BlockReader {
    const AttentionShape& shape;
    const AttentionBuffers& buffers;
    const int32_t* pages;
    int kv_head;

    size_t element(int token) const {
        const size_t slot = static_cast<size_t>(pages[token / shape.page_tokens]) *
                                static_cast<size_t>(shape.page_tokens) +
                            static_cast<size_t>(token % shape.page_tokens);
        return (slot * static_cast<size_t>(shape.kv_heads) + static_cast<size_t>(kv_head)) *
               static_cast<size_t>(shape.head_dim);
    }

    void read(int start, int count, const Scratch& s) const {
        size_t at[kBlockTokens];
        for (int t = 0; t < count; ++t) at[t] = element(start + t);
        if (shape.page_type == PageType::kBf16) {
            read_bf16(at, count, s);
        } else {
            read_f32(at, count, s);
        }
    }

    void read_bf16(const size_t* at, int count, const Scratch& s) const {
        const auto* keys = static_cast<const uint16_t*>(buffers.keys);
        const auto* values = static_cast<const uint16_t*>(buffers.values);
        for (int half = 0; half < kBlockTokens; half += kLanes) {
            for (int d = 0; d < shape.head_dim; d += 2 * kLanes) {
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
            for (int d = 0; d < shape.head_dim; d += kLanes)
                store(s.values + t * shape.head_dim + d, load_bf16(values + at[t] + d));
    }

    void read_f32(const size_t* at, int count, const Scratch& s) const {
        const auto* keys = static_cast<const float*>(buffers.keys);
        const auto* values = static_cast<const float*>(buffers.values);
        for (int half = 0; half < kBlockTokens; half += kLanes) {
            for (int d = 0; d < shape.head_dim; d += kLanes) {
                f32x16 r[kLanes];
                for (int i = 0; i < kLanes; ++i)
                    r[i] = half + i < count ? load(keys + at[half + i] + d) : splat(0.0f);
                transpose(r);
                for (int j = 0; j < kLanes; ++j) store(s.keys + (d + j) * kBlockTokens + half, r[j]);
            }
        }
        for (int t = 0; t < count; ++t)
            for (int d = 0; d < shape.head_dim; d += kLanes)
                store(s.values + t * shape.head_dim + d, load(values + at[t] + d));
    }
};

template <int kRows>
void score_rows(int head_dim, const float* query, const float* keys, float* scores) {
    f32x16 low[kRows], high[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) low[r] = high[r] = splat(0.0f);
    for (int d = 0; d < head_dim; ++d) {
        const f32x16 first = load(keys + d * kBlockTokens), second = load(keys + d * kBlockTokens + kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
            const f32x16 q = splat(query[r * head_dim + d]);
            low[r] = fma(q, first, low[r]);
            high[r] = fma(q, second, high[r]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
        store(scores + r * kBlockTokens, low[r]);
        store(scores + r * kBlockTokens + kLanes, high[r]);
    }
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

void score_all(int head_dim, const float* query, const float* keys, float* scores, int rows) {
    int r = 0;
    if constexpr (kRowBlock == 8) {
        for (; r + 8 <= rows; r += 8)
            score_rows<8>(head_dim, query + r * head_dim, keys, scores + r * kBlockTokens);
        for (; r + 3 <= rows; r += 3)
            score_rows<3>(head_dim, query + r * head_dim, keys, scores + r * kBlockTokens);
    }
    for (; r + 2 <= rows; r += 2)
        score_rows<2>(head_dim, query + r * head_dim, keys, scores + r * kBlockTokens);
    for (; r < rows; ++r) score_rows<1>(head_dim, query + r * head_dim, keys, scores + r * kBlockTokens);
}

void weigh_all(int head_dim, int count, const Scratch& s, int first, int last) {
    int r = first;
    const auto weigh = [&](auto rows, int at) {
        weigh_rows<decltype(rows)::value>(head_dim, count, s.scores + at * kBlockTokens, s.shrink + at, s.values,
                                          s.out + at * head_dim);
    };
    if constexpr (kRowBlock == 8) {
        for (; r + 4 <= last; r += 4) weigh(std::integral_constant<int, 4>{}, r);
        for (; r + 3 <= last; r += 3) weigh(std::integral_constant<int, 3>{}, r);
    }
    for (; r + 2 <= last; r += 2) weigh(std::integral_constant<int, 2>{}, r);
    for (; r < last; ++r) weigh(std::integral_constant<int, 1>{}, r);
}

// Turn a row's scores into weights. Leaves their sum in `fresh`, the old top minus the new one in `shrink`.
void soften(const Scratch& s, int row, int from, int to, float soft_cap) {
    float* scores = s.scores + row * kBlockTokens;
    f32x16 low = load(scores), high = load(scores + kLanes);
    if (soft_cap != 0.0f) {
        const f32x16 cap = splat(soft_cap);
        low = mul(cap, hyperbolic_tangent(div(low, cap)));
        high = mul(cap, hyperbolic_tangent(div(high, cap)));
    }
    if (from > 0 || to < kBlockTokens) {
        const f32x16 hidden = splat(kMinusInfinity);
        low = keep_lanes(low, std::min(from, kLanes), std::min(to, kLanes), hidden);
        high = keep_lanes(high, std::max(from - kLanes, 0), std::max(to - kLanes, 0), hidden);
    }
    const float top = std::max(s.top[row], max_lanes(max(low, high)));
    const f32x16 anchor = splat(top);
    low = exponential(sub(low, anchor));
    high = exponential(sub(high, anchor));
    store(scores, low);
    store(scores + kLanes, high);
    s.fresh[row] = sum_lanes(add(low, high));
    s.shrink[row] = s.top[row] - top;
    s.top[row] = top;
}

// The item's query rows: row `i * group + h` is head `h` of the kv head's group, of the item's token `i`.
struct Tile {
    const AttentionShape& shape;
    const VisibleRow* rows;
    int tokens;

    int height() const { return tokens * shape.group(); }
    const VisibleRow& row(int r) const { return rows[r / shape.group()]; }
};

void gather_query(const Tile& tile, int kv_head, const AttentionBuffers& buffers, const Scratch& s) {
    const size_t width = static_cast<size_t>(tile.shape.group() * tile.shape.head_dim);
    for (int i = 0; i < tile.tokens; ++i) {
        const float* q = buffers.query + static_cast<size_t>(tile.rows[i].token) * buffers.query_stride +
                         static_cast<size_t>(kv_head) * width;
        std::memcpy(s.query + static_cast<size_t>(i) * width, q, width * sizeof(float));
    }
}

void attend_block(const Tile& tile, int start, int count, const Scratch& s) {
    const int head_dim = tile.shape.head_dim;
    // Rows that see something of the block follow one another: positions rise within a tile.
    int first = 0, last = tile.height();
    while (first < last && tile.row(first).last <= start) ++first;
    while (last > first && tile.row(last - 1).first >= start + count) --last;
    if (first == last) return;
    score_all(head_dim, s.query + first * head_dim, s.keys, s.scores + first * kBlockTokens, last - first);
    for (int r = first; r < last; ++r) {
        const int from = std::max(0, tile.row(r).first - start);
        const int to = std::min(kBlockTokens, tile.row(r).last - start);
        soften(s, r, from, to, tile.shape.soft_cap);
    }
    for (int r = first; r < last; r += kLanes) store(s.shrink + r, exponential(load(s.shrink + r)));
    for (int r = first; r < last; ++r) s.sum[r] = s.sum[r] * s.shrink[r] + s.fresh[r];
    weigh_all(head_dim, count, s, first, last);
}

// One span's top, sum and o of every row.
void attend_span(const Tile& tile, int span, const BlockReader& reader, const Scratch& s) {
    const int height = tile.height();
    std::fill_n(s.top, height, kMinusInfinity);
    std::fill_n(s.sum, height, 0.0f);
    std::fill_n(s.out, height * tile.shape.head_dim, 0.0f);
    int low = tile.rows[0].first, high = 0;
    for (int i = 0; i < tile.tokens; ++i) {
        low = std::min(low, tile.rows[i].first);
        high = std::max(high, tile.rows[i].last);
    }
    const int stop = std::min(high, (span + 1) * kSpanTokens);
    int start = std::max(low, span * kSpanTokens) / kBlockTokens * kBlockTokens;
    for (; start < stop; start += kBlockTokens) {
        const int count = std::min(kBlockTokens, stop - start);
        reader.read(start, count, s);
        attend_block(tile, start, count, s);
    }
}

// total = total merged with part; an empty total has sum 0 and top minus infinity.
void merge(int head_dim, float part_top, float part_sum, const float* part, float& top, float& sum, float* total) {
    const float highest = std::max(top, part_top);
    float factors[kLanes];
    store(factors, exponential(keep_lanes(splat(top - highest), 0, 1, splat(part_top - highest))));
    const f32x16 keep = splat(factors[0]), gain = splat(factors[1]);
    for (int d = 0; d < head_dim; d += kLanes)
        store(total + d, fma(load(part + d), gain, mul(load(total + d), keep)));
    sum = sum * factors[0] + part_sum * factors[1];
    top = highest;
}

void divide(int head_dim, const float* total, float sum, float* out) {
    for (int d = 0; d < head_dim; d += kLanes) store(out + d, div(load(total + d), splat(sum)));
}

void merge_tile(const Tile& tile, int span, const Scratch& s) {
    const int head_dim = tile.shape.head_dim;
    for (int r = 0; r < tile.height(); ++r) {
        const bool sees = tile.row(r).last > span * kSpanTokens && tile.row(r).first < (span + 1) * kSpanTokens;
        if (!sees) continue;
        merge(head_dim, s.top[r], s.sum[r], s.out + r * head_dim, s.total_top[r], s.total_sum[r],
              s.total + r * head_dim);
    }
}

void attend_whole(const Tile& tile, const AttentionItem& item, int kv_head, const BlockReader& reader,
                  const AttentionBuffers& buffers, const Scratch& s) {
    const int height = tile.height(), head_dim = tile.shape.head_dim, group = tile.shape.group();
    std::fill_n(s.total_top, height, kMinusInfinity);
    std::fill_n(s.total_sum, height, 0.0f);
    std::fill_n(s.total, height * head_dim, 0.0f);
    for (int span = item.first_span; span < item.last_span; ++span) {
        attend_span(tile, span, reader, s);
        merge_tile(tile, span, s);
    }
    for (int r = 0; r < height; ++r) {
        const size_t head = static_cast<size_t>(tile.row(r).token) * static_cast<size_t>(tile.shape.heads) +
                            static_cast<size_t>(kv_head * group + r % group);
        divide(head_dim, s.total + r * head_dim, s.total_sum[r], buffers.out + head * static_cast<size_t>(head_dim));
    }
}

// Where a partial of one head begins: o[head_dim], top, sum.
float* partial_of(const AttentionShape& shape, float* partials, int index, int head) {
    return partials + static_cast<size_t>(index) * partial_stride(shape) +
           static_cast<size_t>(head) * static_cast<size_t>(shape.head_dim + 16);
}

}  // namespace

int tile_tokens(const AttentionShape& shape) { return std::max(1, kTileRowHeads / shape.group()); }

size_t attention_scratch(const AttentionShape& shape) {
    const size_t d = static_cast<size_t>(shape.head_dim), rows = kTileRowHeads + kLanes;
    return rows * (3 * d + kBlockTokens + 6) + 2 * d * kBlockTokens + 16 * kLanes;
}

void attend(const AttentionShape& shape, const AttentionPlan& plan, const AttentionItem& item, int kv_head,
            const AttentionBuffers& buffers, float* scratch) {
    const Scratch s(scratch, shape);
    const Tile tile{shape, plan.rows.data() + item.first_row, item.last_row - item.first_row};
    const int32_t* pages =
        buffers.page_table + static_cast<size_t>(item.sequence) * static_cast<size_t>(buffers.max_pages);
    const BlockReader reader{shape, buffers, pages, kv_head};
    gather_query(tile, kv_head, buffers, s);
    if (item.is_whole) {
        attend_whole(tile, item, kv_head, reader, buffers, s);
        return;
    }
    attend_span(tile, item.first_span, reader, s);
    const int group = shape.group(), head_dim = shape.head_dim;
    for (int r = 0; r < tile.height(); ++r) {
        const VisibleRow& row = tile.row(r);
        const int index = plan.first_partial[static_cast<size_t>(row.token)] + item.first_span - row.first / kSpanTokens;
        float* partial = partial_of(shape, buffers.partials, index, kv_head * group + r % group);
        std::memcpy(partial, s.out + r * head_dim, sizeof(float) * static_cast<size_t>(head_dim));
        partial[head_dim] = s.top[r];
        partial[head_dim + 1] = s.sum[r];
    }
}

void merge_partials(const AttentionShape& shape, const AttentionPlan& plan, int token, float* partials, float* out) {
    const int first = plan.first_partial[static_cast<size_t>(token)];
    const int count = plan.partial_count[static_cast<size_t>(token)];
    const int head_dim = shape.head_dim;
    for (int head = 0; head < shape.heads; ++head) {
        float top = kMinusInfinity, sum = 0.0f;
        float* total = out + head * head_dim;
        std::fill_n(total, head_dim, 0.0f);
        for (int i = 0; i < count; ++i) {
            const float* part = partial_of(shape, partials, first + i, head);
            merge(head_dim, part[head_dim], part[head_dim + 1], part, top, sum, total);
        }
        divide(head_dim, total, sum, total);
    }
}

}  // namespace sgrt
