// Attention over one block of sealed tokens: laid out as floats for many rows, straight from the pages for few.
#pragma once

#include "attention_block.h"
#include "attention_direct.h"
#include "attention_sealed.h"

namespace sgrt {

// Sealed tokens of one block and kv head: where they lie, and what their codes stand for.
template <SealedType kType>
struct SealedBlock {
    const AttentionShape& shape;
    const SgrtSealedLayer& layer;
    size_t at[kBlockTokens];  // index of a token's first element
    const float* scales[kBlockTokens];  // [head_dim] scales of the token's page, then as many offsets
    int count;

    // memory: 2 * head_dim floats for each page of the block
    SealedBlock(const PageReader& reader, const SgrtSealedLayer& sealed, int start, int count, float* memory)
        : shape(reader.shape), layer(sealed), count(count) {
        reader.elements(start, count, at);
        int page = start / shape.page_tokens, offset = start % shape.page_tokens;
        for (int t = 0; t < count; ++page, offset = 0, memory += 2 * shape.head_dim) {
            read_key_scales(layer, static_cast<size_t>(reader.pages[page]), shape.kv_heads, reader.kv_head,
                            shape.head_dim, memory, memory + shape.head_dim);
            for (; offset < shape.page_tokens && t < count; ++offset, ++t) scales[t] = memory;
        }
    }

    // keys[d][token], values[token][d] as floats; values are codes still, see `weigh_scales`.
    void read(const Scratch& s) const {
        const int dim = shape.head_dim;
        for (int half = 0; half < kBlockTokens; half += kLanes) {
            for (int d = 0; d < dim; d += kLanes) {
                f32x16 r[kLanes];
                for (int i = 0; i < kLanes; ++i) r[i] = half + i < count ? key(half + i, d) : splat(0.0f);
                transpose(r);
                for (int j = 0; j < kLanes; ++j) store(s.keys + (d + j) * kBlockTokens + half, r[j]);
            }
        }
        for (int t = 0; t < count; ++t)
            for (int d = 0; d < dim; d += kLanes) store(s.values + t * dim + d, load_codes<kType>(layer.values + at[t] + d));
    }

    f32x16 key(int t, int d) const {
        const float* scale = scales[t];
        return fma(load_codes<kType>(layer.keys + at[t] + d), load(scale + d), load(scale + shape.head_dim + d));
    }

    // Multiply the rows' weights by the scales of the values.
    void weigh_scales(int first, int last, const Scratch& s) const {
        float scale[kBlockTokens] = {};
        for (int t = 0; t < count; ++t)
            scale[t] = from_bf16(layer.value_scales[at[t] / static_cast<size_t>(shape.head_dim)]);
        for (int r = first; r < last; ++r) {
            float* weights = s.scores + r * kBlockTokens;
            for (int i = 0; i < kBlockTokens; i += kLanes) store(weights + i, mul(load(weights + i), load(scale + i)));
        }
    }

    // Scores of kLanes tokens of one page from `first` on, four channels of each in a lane.
    template <int kRows>
    void score_lanes(int first, const float* query, float* scores) const {
        const int dim = shape.head_dim, present = std::min(kLanes, count - first);
        const float* scale = scales[first];
        f32x16 acc[kRows];
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) acc[r] = splat(0.0f);
        for (int d = 0; d < dim; d += 4 * kLanes) {
            f32x16 k[kLanes];
            for (int i = 0; i < present; ++i) k[i] = load(reinterpret_cast<const float*>(layer.keys + at[first + i] + d));
            for (int i = present; i < kLanes; ++i) k[i] = splat(0.0f);
            transpose(k);
            for (int j = 0; j < kLanes; ++j) {
                const i32x16 four = as_int(k[j]);
                const int channel = d + 4 * j;
                add_channel<kRows>(code_in_lanes<kType, 0>(four), channel, scale, query, acc);
                add_channel<kRows>(code_in_lanes<kType, 1>(four), channel + 1, scale, query, acc);
                add_channel<kRows>(code_in_lanes<kType, 2>(four), channel + 2, scale, query, acc);
                add_channel<kRows>(code_in_lanes<kType, 3>(four), channel + 3, scale, query, acc);
            }
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) store(scores + r * kBlockTokens, acc[r]);
    }

    template <int kRows>
    void add_channel(f32x16 code, int d, const float* scale, const float* query, f32x16* acc) const {
        const f32x16 k = fma(code, splat(scale[d]), splat(scale[shape.head_dim + d]));
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) acc[r] = fma(splat(query[r * shape.head_dim + d]), k, acc[r]);
    }

    template <int kRows, int kVectors>
    void weigh(int d, const float* weights, const float* shrink, float* out) const {
        weigh_values<kRows, kVectors>(count, shape.head_dim, weights, shrink, out + d, [&](int t, int i) {
            return load_codes<kType>(layer.values + at[t] + d + i * kLanes);
        });
    }
};

// Whether a row may read the pages directly: sixteen tokens lie in one page, and channels come by 64.
inline bool can_read_sealed_directly(const AttentionShape& shape) {
    return shape.page_tokens % kLanes == 0 && shape.head_dim % (4 * kLanes) == 0;
}

// Load a byte of every cache line of a block's codes, of `heads` kv heads from the reader's on: the processor sees a
// stream and runs ahead of it.
inline void touch_sealed(const PageReader& reader, const SgrtSealedLayer& layer, int start, int count, int heads) {
    size_t at[kBlockTokens];
    reader.elements(start, count, at);
    touch(layer.keys, at, 0, count, heads * reader.shape.head_dim);
    touch(layer.values, at, 0, count, heads * reader.shape.head_dim);
}

template <SealedType kType>
void attend_sealed_block(const Tile& tile, int start, int count, const PageReader& reader, const SgrtSealedLayer& layer,
                         const Scratch& s, float* memory) {
    const SeenRows rows(tile, start, count);
    if (rows.empty()) return;
    const SealedBlock<kType> block(reader, layer, start, count, memory);
    block.read(s);
    score_all(tile.shape.head_dim, s, rows.first, rows.last);
    soften_rows(tile, start, rows.first, rows.last, s);
    block.weigh_scales(rows.first, rows.last, s);
    weigh_all(tile.shape.head_dim, count, s, rows.first, rows.last);
}

// The same for the only token of a tile.
template <SealedType kType>
void attend_sealed_direct(const Tile& tile, int start, int count, const PageReader& reader, const SgrtSealedLayer& layer,
                          const Scratch& s, float* memory) {
    const SealedBlock<kType> block(reader, layer, start, count, memory);
    const int dim = tile.shape.head_dim, rows = tile.height();
    for (int first = 0; first < kBlockTokens; first += kLanes) {
        if (first >= count) {
            for (int r = 0; r < rows; ++r) store(s.scores + r * kBlockTokens + first, splat(0.0f));
            continue;
        }
        by_few_rows(rows, [&](auto set, int r) {
            block.template score_lanes<decltype(set)::value>(first, s.query + r * dim, s.scores + r * kBlockTokens + first);
        });
    }
    soften_rows(tile, start, 0, rows, s);
    block.weigh_scales(0, rows, s);
    by_few_rows(rows, [&](auto set, int r) {
        for (int d = 0; d < dim; d += 4 * kLanes)
            block.template weigh<decltype(set)::value, 4>(d, s.scores + r * kBlockTokens, s.shrink + r, s.out + r * dim);
    });
}

}  // namespace sgrt
