// From the blocks of a file (ggml's types) to the tiles of packed_matrix.h.
#pragma once

#include "packed_matrix.h"

namespace sgrt {

// ggml's types, by the numbers GGUF files use.
enum class BlockType : int32_t {
    kF32 = 0,
    kF16 = 1,
    kQ4_0 = 2,
    kQ4_1 = 3,
    kQ5_0 = 6,
    kQ5_1 = 7,
    kQ8_0 = 8,
    kQ4_K = 12,
    kQ5_K = 13,
    kQ6_K = 14,
    kBf16 = 30,
};

// The kind that holds a type exactly; false where there is none or `columns` is no multiple of its block.
bool kind_of(BlockType type, int columns, Kind& kind);

// Write tiles [first_tile, last_tile) of the matrix to `data`, the place of the matrix's first tile.
// `blocks`: the first row's blocks; row `i` lies `i * row_bytes` further. Rows past the last are zero.
void pack_tiles(BlockType type, const uint8_t* blocks, size_t row_bytes, const PackedMatrix& matrix, int first_tile,
                int last_tile, uint8_t* data);

// One row of a packed matrix as floats: q * scale (+ minimum), each product and sum rounded to float.
void unpack_row(const PackedMatrix& matrix, int row, float* out);

}  // namespace sgrt
