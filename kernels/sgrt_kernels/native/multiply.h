// Products of activations with packed matrices.
//
// Quantized kinds, for one output row and one token, groups g in rising order:
//
//     result = fma(float(sum of q_weight * q_activation over the group), scale_weight * scale_activation, result)
//     result = fma(minimum_weight, scale_activation * sum of q_activation, result)         kinds with a minimum
//
// The integer sum is exact; Q6_K has two of them a group, of 16 columns each. Float kinds:
// result = fma(weight, activation, result), columns in rising order.
// One token or many, the arithmetic of an output is the same: kernels differ only in how many outputs they keep at once.
#pragma once

#include "activations.h"
#include "packed_matrix.h"
#include "vector.h"

namespace sgrt {

// Where a kernel reads the tokens it multiplies: `Activations` from one token on.
struct TokenRun {
    const int8_t* values;
    const float* scales;
    const float* sums;
    const int32_t* negated;
    const float* floats;
    size_t floats_stride;
    bool is_first;  // of the runs that read a tile: it brings the weights ahead in
};

// Multiply one tile with some tokens: out[token * 16 + row].
using TileKernel = void (*)(const uint8_t* tile, int columns, const TokenRun& run, float* out);

// The kernel for a kind, a number of tokens (a power of two up to kMaxTokens) and the activations' width.
TileKernel tile_kernel(Kind kind, int tokens, int width);

inline TokenRun run_from(const Activations& a, int token) {
    const size_t cell = a.first_cell(token);
    const size_t lane = static_cast<size_t>(token % a.width);
    TokenRun run;
    run.values = a.values + cell * kGroup;
    run.scales = a.scales + cell;
    run.sums = a.sums + cell;
    run.negated = a.negated + (cell - lane) * 2 + lane;
    run.floats_stride = static_cast<size_t>(a.columns);
    run.floats = a.floats == nullptr ? nullptr : a.floats + static_cast<size_t>(token) * run.floats_stride;
    run.is_first = false;
    return run;
}

// Call `emit(token, first_row, values of 16 rows)` for the tokens [first, last) and one tile.
template <typename Emit>
inline void multiply_tile(const PackedMatrix& matrix, int tile, const Activations& a, int first, int last, Emit emit) {
    const uint8_t* data = matrix.data + tile_bytes(matrix.kind, matrix.columns) * static_cast<size_t>(tile);
    alignas(64) float out[kBlockRows * kLanes];
    for (int token = first; token < last;) {
        int count = kMaxTokens;
        while (count > last - token || token % kBlockRows + count > kBlockRows) count /= 2;
        TokenRun run = run_from(a, token);
        run.is_first = token == first;
        tile_kernel(matrix.kind, count, a.width)(data, matrix.columns, run, out);
        for (int i = 0; i < count; ++i) emit(token + i, tile * kTileRows, load(out + i * kLanes));
        token += count;
    }
}

}  // namespace sgrt
