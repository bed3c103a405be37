// Weights as the kernels want them: tiles of 16 output rows, 16 lanes side by side.
//
// A tile of a quantized matrix holds its groups of 32 columns one after the other, and then their scales:
//
//     quads     [groups][8 quads] of 64 bytes: byte 4 row + b of quad j is column 4 j + b of the row
//               4-bit kinds: [groups][4], quad j in the low halves of vector j, quad j + 4 in the high halves
//     scales    by the kind, see `ScaleKind`
//
// A tile of a float matrix holds [columns][16 rows].
#pragma once

#include <cstddef>
#include <cstdint>

namespace sgrt {

constexpr int kTileRows = 16;
constexpr int kGroup = 32;        // columns that share an activation scale
constexpr int kSuperGroups = 8;   // groups in a super-block of 256 columns

enum class ScaleKind {
    kHalf,         // [groups][16] f16 scales
    kHalfMinimum,  // [groups][16 f16 scales, 16 f16 minima]
    kSuper,        // [super-blocks][16 f16 d, 16 f16 dmin, 8 x (16 u8 scales, 16 u8 minima)]
    kSuperSigned,  // [super-blocks][16 f16 d, 16 unused, 8 x (16 i8 scales of 16 columns, 16 of the other 16)]
};

// What a weight is: q * scale (+ minimum), where q is unsigned in memory and less by `offset` in meaning.
enum class Kind : int32_t {
    kNibble = 0,         // Q4_0: 4 bits, offset 8
    kNibbleMinimum = 1,  // Q4_1
    kNibbleSuper = 2,    // Q4_K
    kByte = 3,           // Q8_0, Q5_0: 8 bits, offset 128
    kByteMinimum = 4,    // Q5_1
    kByteSuper = 5,      // Q5_K
    kByteSuperSigned = 6,  // Q6_K: offset 128
    kF32 = 7,
    kF16 = 8,
    kBf16 = 9,
};

constexpr bool is_quantized(Kind kind) { return kind < Kind::kF32; }

struct PackedMatrix {
    const uint8_t* data;
    int32_t rows, columns;
    Kind kind;

    int tiles() const { return (rows + kTileRows - 1) / kTileRows; }
    int groups() const { return columns / kGroup; }
};

// Bytes of quads of one group, 0 for float kinds.
constexpr size_t quad_bytes(Kind kind) {
    return kind <= Kind::kNibbleSuper ? 256 : kind <= Kind::kByteSuperSigned ? 512 : 0;
}

// Bytes of scales of one tile.
constexpr size_t scale_bytes(Kind kind, int columns) {
    const size_t groups = static_cast<size_t>(columns) / kGroup;
    switch (kind) {
        case Kind::kNibble:
        case Kind::kByte: return (groups * 32 + 63) / 64 * 64;
        case Kind::kNibbleMinimum:
        case Kind::kByteMinimum: return groups * 64;
        case Kind::kNibbleSuper:
        case Kind::kByteSuper:
        case Kind::kByteSuperSigned: return groups / kSuperGroups * 320;
        default: return 0;
    }
}

constexpr size_t tile_bytes(Kind kind, int columns) {
    switch (kind) {
        case Kind::kF32: return static_cast<size_t>(columns) * 64;
        case Kind::kF16:
        case Kind::kBf16: return static_cast<size_t>(columns) * 32;
        default: return static_cast<size_t>(columns) / kGroup * quad_bytes(kind) + scale_bytes(kind, columns);
    }
}

inline size_t packed_bytes(const PackedMatrix& matrix) {
    return tile_bytes(matrix.kind, matrix.columns) * static_cast<size_t>(matrix.tiles());
}

}  // namespace sgrt
