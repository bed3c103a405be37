// Attention of few rows over one block, straight from the pages.
#pragma once

#include <type_traits>

#include "attention_tile.h"

namespace sgrt {

constexpr int kFewRows = 8;

// Add a block's values to `out`, shrunk before: kVectors vectors of channels from there on, for kRows rows that lie
// `head_dim` apart. value(t, i): vector i of token t.
template <int kRows, int kVectors, typename Value>
inline void weigh_values(int count, int head_dim, const float* weights, const float* shrink, float* out, Value value) {
    f32x16 acc[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) acc[r][i] = mul(load(out + r * head_dim + i * kLanes), splat(shrink[r]));
    for (int t = 0; t < count; ++t) {
        f32x16 v[kVectors];
#pragma GCC unroll 4
        for (int i = 0; i < kVectors; ++i) v[i] = value(t, i);
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
        for (int i = 0; i < kVectors; ++i) store(out + r * head_dim + i * kLanes, acc[r][i]);
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
        weigh_values<kRows, kVectors>(count, head_dim, weights, shrink, out + d, [&](int t, int i) {
            return load_value(values + at[t] + d + i * kLanes);
        });
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

// Load a byte of every cache line of the tokens [first, last).
template <typename Element>
inline void touch(const Element* pages, const size_t* at, int first, int last, int width) {
    constexpr int kLine = 64 / static_cast<int>(sizeof(Element));
    for (int t = first; t < last; ++t)
        for (int i = 0; i < width; i += kLine) (void)*static_cast<const volatile Element*>(pages + at[t] + i);
}

// One block for the only token of a tile and `heads` kv heads from the reader's on. Tokens come sixteen at a time and
// with all their heads, in the order in which they lie in memory: the processor sees a stream and runs ahead of it.
template <PageType kType>
void attend_direct(const Tile& tile, int start, int count, int heads, const PageReader& reader, const Scratch& s) {
    using Block = DirectBlock<kType>;
    using Element = typename Block::Element;
    const int head_dim = tile.shape.head_dim, rows = tile.height();
    size_t at[kBlockTokens];
    reader.elements(start, count, at);
    const auto* keys = static_cast<const Element*>(reader.buffers.keys);
    const auto* values = static_cast<const Element*>(reader.buffers.values);
    const auto block_of = [&](int head) {
        return Block{keys + head * head_dim, values + head * head_dim, at, count, head_dim};
    };
    for (int first = 0; first < kBlockTokens; first += kLanes) {
        if (first < count) {
            const int last = std::min(count, first + kLanes);
            touch(keys, at, first, last, heads * head_dim);
            touch(values, at, first, last, heads * head_dim);
        }
        for (int head = 0; head < heads; ++head) {
            const Scratch own = s.from_row(head * rows, head_dim);
            if (first >= count) {
                for (int r = 0; r < rows; ++r) store(own.scores + r * kBlockTokens + first, splat(0.0f));
                continue;
            }
            by_few_rows(rows, [&](auto set, int r) {
                block_of(head).template score_lanes<decltype(set)::value>(first, own.query + r * head_dim,
                                                                          own.scores + r * kBlockTokens + first);
            });
        }
    }
    for (int head = 0; head < heads; ++head) {
        const Scratch own = s.from_row(head * rows, head_dim);
        soften_rows(tile, start, 0, rows, own);
        by_few_rows(rows, [&](auto set, int r) {
            const float* weights = own.scores + r * kBlockTokens;
            float* out = own.out + r * head_dim;
            int d = 0;
            for (; d + 4 * kLanes <= head_dim; d += 4 * kLanes)
                block_of(head).template weigh<decltype(set)::value, 4>(d, weights, own.shrink + r, out);
            for (; d < head_dim; d += 2 * kLanes)
                block_of(head).template weigh<decltype(set)::value, 2>(d, weights, own.shrink + r, out);
        });
    }
}

}  // namespace sgrt
