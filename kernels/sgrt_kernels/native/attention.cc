#include "attention.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "mathematics.h"
#include "vector.h"

namespace sgrt {

namespace {

constexpr int kTileRowHeads = 96;
constexpr int kBlockVectors = kBlockTokens / kLanes;
constexpr int kFewRows = 8;  // rows of an item up to which keys and values are used straight from the pages
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

void score_all(int head_dim, const Scratch& s, int first, int last) {
    by_rows(first, last, [&](auto rows, int r) {
        score_rows<decltype(rows)::value>(head_dim, s.query + r * head_dim, s.keys, s.scores + r * kBlockTokens);
    });
}

void weigh_all(int head_dim, int count, const Scratch& s, int first, int last) {
    by_rows(first, last, [&](auto rows, int r) {
        weigh_rows<decltype(rows)::value>(head_dim, count, s.scores + r * kBlockTokens, s.shrink + r, s.values,
                                          s.out + r * head_dim);
    });
}

// Turn a row's scores into weights. Leaves their sum in `fresh`, the old top minus the new one in `shrink`.
void soften(const Scratch& s, int row, int from, int to, float soft_cap) {
    float* scores = s.scores + row * kBlockTokens;
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

void soften_rows(const Tile& tile, int start, int first, int last, const Scratch& s) {
    for (int r = first; r < last; ++r) {
        const int from = std::max(0, tile.row(r).first - start);
        const int to = std::min(kBlockTokens, tile.row(r).last - start);
        soften(s, r, from, to, tile.shape.soft_cap);
    }
    for (int r = first; r < last; r += kLanes) store(s.shrink + r, exponential(load(s.shrink + r)));
    for (int r = first; r < last; ++r) s.sum[r] = s.sum[r] * s.shrink[r] + s.fresh[r];
}

void attend_block(const Tile& tile, int start, int count, const BlockReader& reader, const Scratch& s) {
    // Rows that see something of the block follow one another: positions rise within a tile.
    int first = 0, last = tile.height();
    while (first < last && tile.row(first).last <= start) ++first;
    while (last > first && tile.row(last - 1).first >= start + count) --last;
    if (first == last) return;
    reader.read(start, count, s);
    score_all(tile.shape.head_dim, s, first, last);
    soften_rows(tile, start, first, last, s);
    weigh_all(tile.shape.head_dim, count, s, first, last);
}

// Keys and values straight from the pages: for few rows, laying them out first would cost more than it saves. The
// arithmetic is that of the laid-out block.
template <PageType kType>
struct DirectBlock {
    using Element = std::conditional_t<kType == PageType::kBf16, uint16_t, float>;
    static constexpr int kChannels = kType == PageType::kBf16 ? 2 * kLanes : kLanes;  // one vector of a key

    const Element* keys;
    const Element* values;
    const size_t* at;  // [count] of the block's tokens
    int count, head_dim;

    static f32x16 load_value(const Element* p) {
        if constexpr (kType == PageType::kBf16) return load_bf16(p);
        else return load(p);
    }

    // Scores of kLanes tokens from `first` on; those past `count` are zero.
    template <int kRows>
    void score_lanes(int first, const float* query, float* scores) const {
        f32x16 acc[kRows];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) acc[r] = splat(0.0f);
        for (int d = 0; d < head_dim; d += kChannels) {
            f32x16 k[kLanes];
            const int present = std::min(kLanes, count - first);
            for (int i = 0; i < present; ++i) k[i] = load(reinterpret_cast<const float*>(keys + at[first + i] + d));
            for (int i = present; i < kLanes; ++i) k[i] = splat(0.0f);
            transpose(k);
#pragma GCC unroll 16
            for (int j = 0; j < kLanes; ++j) {
                if constexpr (kType == PageType::kBf16) {
                    f32x16 even, odd;
                    split_bf16_pairs(k[j], even, odd);
#pragma GCC unroll 8
                    for (int r = 0; r < kRows; ++r) acc[r] = fma(splat(query[r * head_dim + d + 2 * j]), even, acc[r]);
#pragma GCC unroll 8
                    for (int r = 0; r < kRows; ++r)
                        acc[r] = fma(splat(query[r * head_dim + d + 2 * j + 1]), odd, acc[r]);
                } else {
#pragma GCC unroll 8
                    for (int r = 0; r < kRows; ++r) acc[r] = fma(splat(query[r * head_dim + d + j]), k[j], acc[r]);
                }
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) store(scores + r * kBlockTokens, acc[r]);
    }

    template <int kRows, int kVectors>
    void weigh(int d, const float* weights, const float* shrink, float* out) const {
        f32x16 acc[kRows][kVectors];
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < kVectors; ++i)
                acc[r][i] = mul(load(out + r * head_dim + d + i * kLanes), splat(shrink[r]));
        for (int t = 0; t < count; ++t) {
            f32x16 v[kVectors];
#pragma GCC unroll 4
            for (int i = 0; i < kVectors; ++i) v[i] = load_value(values + at[t] + d + i * kLanes);
#pragma GCC unroll 4
            for (int r = 0; r < kRows; ++r) {
                const f32x16 p = splat(weights[r * kBlockTokens + t]);
#pragma GCC unroll 4
                for (int i = 0; i < kVectors; ++i) acc[r][i] = fma(p, v[i], acc[r][i]);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
            for (int i = 0; i < kVectors; ++i) store(out + r * head_dim + d + i * kLanes, acc[r][i]);
    }
};

// Call `step(std::integral_constant<int, rows>, first)` for sets of at most four rows.
template <typename Step>
void by_few_rows(int rows, Step step) {
    int r = 0;
    for (; r + 4 <= rows; r += 4) step(std::integral_constant<int, 4>{}, r);
    for (; r + 3 <= rows; r += 3) step(std::integral_constant<int, 3>{}, r);
    for (; r + 2 <= rows; r += 2) step(std::integral_constant<int, 2>{}, r);
    for (; r < rows; ++r) step(std::integral_constant<int, 1>{}, r);
}

template <PageType kType>
void attend_direct(const Tile& tile, int start, int count, const BlockReader& reader, const Scratch& s) {
    using Block = DirectBlock<kType>;
    using Element = typename Block::Element;
    const int head_dim = tile.shape.head_dim, rows = tile.height();
    size_t at[kBlockTokens];
    for (int t = 0; t < count; ++t) at[t] = reader.element(start + t);
    const Block block{static_cast<const Element*>(reader.buffers.keys), static_cast<const Element*>(reader.buffers.values),
                      at, count, head_dim};
    for (int t = 0; t < count; ++t)  // needed after the scores: on its way meanwhile
        for (int d = 0; d < head_dim; d += 64 / static_cast<int>(sizeof(Element))) prefetch(block.values + at[t] + d);
    for (int first = 0; first < kBlockTokens; first += kLanes) {
        float* scores = s.scores + first;
        if (first >= count) {
            for (int r = 0; r < rows; ++r) store(scores + r * kBlockTokens, splat(0.0f));
            continue;
        }
        by_few_rows(rows, [&](auto set, int r) {
            block.template score_lanes<decltype(set)::value>(first, s.query + r * head_dim, scores + r * kBlockTokens);
        });
    }
    soften_rows(tile, start, 0, rows, s);
    by_few_rows(rows, [&](auto set, int r) {
        const float* weights = s.scores + r * kBlockTokens;
        float* out = s.out + r * head_dim;
        int d = 0;
        for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes)
            block.template weigh<decltype(set)::value, 4>(d, weights, s.shrink + r, out);
        for (; d < head_dim; d += 2 * kLanes)
            block.template weigh<decltype(set)::value, 2>(d, weights, s.shrink + r, out);
    });
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
    // One query token sees a part of every block of its range.
    const bool sees_all = height <= kFewRows && tile.tokens == 1;
    for (; start < stop; start += kBlockTokens) {
        const int count = std::min(kBlockTokens, stop - start);
        if (sees_all && tile.shape.page_type == PageType::kBf16) {
            attend_direct<PageType::kBf16>(tile, start, count, reader, s);
        } else if (sees_all) {
            attend_direct<PageType::kF32>(tile, start, count, reader, s);
        } else {
            attend_block(tile, start, count, reader, s);
        }
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
