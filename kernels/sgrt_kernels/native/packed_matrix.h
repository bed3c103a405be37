// Weights as the kernels want them: tiles of 16 output rows, 16 lanes side by side.
//
// A tile is one stream that is read from its first byte to its last. A group of 32 columns is
//
//     quads    [8] of 64 bytes: byte 4 row + b of quad j is column 4 j + b of the row; 4-bit kinds: [4], quad j in
//              the low halves of vector j, quad j + 4 in the high halves
//
// and the groups, with their scales, follow one another:
//
//     Q4_0, Q8_0, Q5_0         quads, [16] f16 scales
//     Q4_1, Q5_1               quads, [16] f16 scales, [16] f16 minima
//     Q4_K, Q5_K, of 8 groups  [16] f16 d, [16] f16 dmin, [8][16 u8 scales, 16 u8 minima], [8] quads
//     Q6_K, of 8 groups        [16] f16 d, [16] unused, [8][16 i8 scales of 16 columns, 16 of the other 16], [8] quads
//
// A tile of a float matrix holds [columns][16 rows].
#pragma once

#include <cstddef>
#include <cstdint>

namespace sgrt {

constexpr int kTileRows = 16;
constexpr int kGroup = 32;        // columns that share an activation scale
constexpr int kSuperGroups = 8;   // groups in a super-block of 256 columns

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

constexpr bool is_super(Kind kind) {
    return kind == Kind::kNibbleSuper || kind == Kind::kByteSuper || kind == Kind::kByteSuperSigned;
}

// Bytes of the scales of one group, or of a super-block's head: d, dmin and the scales of its eight groups.
constexpr size_t kSuperHead = 64 + kSuperGroups * 32;
constexpr size_t scale_bytes(Kind kind) {
    if (is_super(kind)) return kSuperHead;
    return kind == Kind::kNibbleMinimum || kind == Kind::kByteMinimum ? 64 : 32;
}

// Where a group's quads lie in its tile, and its scales or its super-block's head.
constexpr size_t quads_at(Kind kind, size_t group) {
    const size_t quads = quad_bytes(kind);
    if (!is_super(kind)) return group * (quads + scale_bytes(kind));
    return group / kSuperGroups * (kSuperHead + kSuperGroups * quads) + kSuperHead + group % kSuperGroups * quads;
}
constexpr size_t scales_at(Kind kind, size_t group) {
    const size_t quads = quad_bytes(kind);
    if (!is_super(kind)) return group * (quads + scale_bytes(kind)) + quads;
    return group / kSuperGroups * (kSuperHead + kSuperGroups * quads);
}

constexpr size_t tile_bytes(Kind kind, int columns) {
    const size_t count = static_cast<size_t>(columns);
    if (kind == Kind::kF32) return count * 64;
    if (kind == Kind::kF16 || kind == Kind::kBf16) return count * 32;
    const size_t groups = count / kGroup;
    return is_super(kind) ? scales_at(kind, groups) : quads_at(kind, groups);
}

inline size_t packed_bytes(const PackedMatrix& matrix) {
    return tile_bytes(matrix.kind, matrix.columns) * static_cast<size_t>(matrix.tiles());
}

}  // namespace sgrt
