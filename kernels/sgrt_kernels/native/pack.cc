#include "pack.h"

#include <cstring>

#include "vector.h"

namespace sgrt {

namespace {

struct Layout {
    Kind kind;
    int block_columns;
    int block_bytes;
};

bool layout_of(BlockType type, Layout& layout) {
    switch (type) {
        case BlockType::kF32: layout = {Kind::kF32, 1, 4}; return true;
        case BlockType::kF16: layout = {Kind::kF16, 1, 2}; return true;
        case BlockType::kBf16: layout = {Kind::kBf16, 1, 2}; return true;
        case BlockType::kQ4_0: layout = {Kind::kNibble, 32, 18}; return true;
        case BlockType::kQ4_1: layout = {Kind::kNibbleMinimum, 32, 20}; return true;
        case BlockType::kQ5_0: layout = {Kind::kByte, 32, 22}; return true;
        case BlockType::kQ5_1: layout = {Kind::kByteMinimum, 32, 24}; return true;
        case BlockType::kQ8_0: layout = {Kind::kByte, 32, 34}; return true;
        case BlockType::kQ4_K: layout = {Kind::kNibbleSuper, 256, 144}; return true;
        case BlockType::kQ5_K: layout = {Kind::kByteSuper, 256, 176}; return true;
        case BlockType::kQ6_K: layout = {Kind::kByteSuperSigned, 256, 210}; return true;
    }
    return false;
}

// One group of 32 columns, out of its block.
struct Group {
    uint8_t q[kGroup];
    uint16_t scale = 0, minimum = 0;  // f16 bits: of the group, or of its super-block
    uint8_t first = 0, second = 0;    // a super-block's own scale and minimum, or the scales of both halves
};

uint16_t half_at(const uint8_t* p) {
    uint16_t bits;
    std::memcpy(&bits, p, sizeof bits);
    return bits;
}

void read_nibbles(const uint8_t* qs, Group& group) {
    for (int i = 0; i < 16; ++i) {
        group.q[i] = qs[i] & 15;
        group.q[i + 16] = qs[i] >> 4;
    }
}

void read_fifth_bits(const uint8_t* bytes, uint8_t bias, Group& group) {
    uint32_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    for (int i = 0; i < kGroup; ++i) {
        group.q[i] = static_cast<uint8_t>((group.q[i] | ((bits >> i & 1u) << 4)) + bias);
    }
}

// The 6-bit scale and minimum of group `g` of a Q4_K or Q5_K super-block.
void read_six_bit_scales(const uint8_t* packed, int g, Group& group) {
    if (g < 4) {
        group.first = packed[g] & 63;
        group.second = packed[g + 4] & 63;
    } else {
        group.first = static_cast<uint8_t>((packed[g + 4] & 15) | (packed[g - 4] >> 6 << 4));
        group.second = static_cast<uint8_t>((packed[g + 4] >> 4) | (packed[g] >> 6 << 4));
    }
}

void read_q6_k(const uint8_t* block, int g, Group& group) {
    const int half = g / 4, quarter = g % 4;
    const uint8_t* low = block + 64 * half + 32 * (quarter % 2);
    const uint8_t* high = block + 128 + 32 * half;
    for (int i = 0; i < kGroup; ++i) {
        const int four = quarter < 2 ? low[i] & 15 : low[i] >> 4;
        group.q[i] = static_cast<uint8_t>((four | (high[i] >> (2 * quarter) & 3) << 4) - 32 + 128);
    }
    const uint8_t* scales = block + 192 + 8 * half + 2 * quarter;
    group.first = scales[0];
    group.second = scales[1];
    group.scale = half_at(block + 208);
}

void read_group(BlockType type, const uint8_t* row, int index, Group& group) {
    const uint8_t* block;
    switch (type) {
        case BlockType::kQ4_0:
            block = row + static_cast<size_t>(index) * 18;
            read_nibbles(block + 2, group);
            break;
        case BlockType::kQ4_1:
            block = row + static_cast<size_t>(index) * 20;
            read_nibbles(block + 4, group);
            group.minimum = half_at(block + 2);
            break;
        case BlockType::kQ5_0:
            block = row + static_cast<size_t>(index) * 22;
            read_nibbles(block + 6, group);
            read_fifth_bits(block + 2, 128 - 16, group);
            break;
        case BlockType::kQ5_1:
            block = row + static_cast<size_t>(index) * 24;
            read_nibbles(block + 8, group);
            read_fifth_bits(block + 4, 0, group);
            group.minimum = half_at(block + 2);
            break;
        case BlockType::kQ8_0:
            block = row + static_cast<size_t>(index) * 34;
            for (int i = 0; i < kGroup; ++i) group.q[i] = block[2 + i] ^ 0x80;
            break;
        case BlockType::kQ4_K:
        case BlockType::kQ5_K: {
            const bool has_fifth = type == BlockType::kQ5_K;
            const int g = index % kSuperGroups;
            block = row + static_cast<size_t>(index / kSuperGroups) * (has_fifth ? 176 : 144);
            const uint8_t* qs = block + (has_fifth ? 48 : 16) + 32 * (g / 2);
            for (int i = 0; i < kGroup; ++i) {
                const int fifth = has_fifth ? (block[16 + i] >> g & 1) << 4 : 0;
                group.q[i] = static_cast<uint8_t>((g % 2 ? qs[i] >> 4 : qs[i] & 15) | fifth);
            }
            read_six_bit_scales(block + 4, g, group);
            group.minimum = half_at(block + 2);
            break;
        }
        default:
            read_q6_k(row + static_cast<size_t>(index / kSuperGroups) * 210, index % kSuperGroups, group);
            return;
    }
    group.scale = half_at(block);
}

void write_group(const PackedMatrix& matrix, const Group& group, int index, int lane, uint8_t* tile) {
    const size_t g = static_cast<size_t>(index), row = static_cast<size_t>(lane);
    uint8_t* quads = tile + quads_at(matrix.kind, g) + 4 * row;
    if (quad_bytes(matrix.kind) == 256) {
        for (int j = 0; j < 4; ++j)
            for (int b = 0; b < 4; ++b)
                quads[64 * j + b] = static_cast<uint8_t>(group.q[4 * j + b] | group.q[16 + 4 * j + b] << 4);
    } else {
        for (int j = 0; j < 8; ++j) std::memcpy(quads + 64 * j, group.q + 4 * j, 4);
    }
    uint8_t* scales = tile + scales_at(matrix.kind, g);
    std::memcpy(scales + 2 * row, &group.scale, 2);
    if (scale_bytes(matrix.kind) > 32) std::memcpy(scales + 32 + 2 * row, &group.minimum, 2);
    if (is_super(matrix.kind)) {
        uint8_t* own = scales + 64 + g % kSuperGroups * 32;
        own[row] = group.first;
        own[16 + row] = group.second;
    }
}

void pack_float_row(const PackedMatrix& matrix, const uint8_t* row, int lane, uint8_t* tile) {
    const size_t size = matrix.kind == Kind::kF32 ? 4 : 2;
    for (size_t k = 0; k < static_cast<size_t>(matrix.columns); ++k)
        std::memcpy(tile + (16 * k + static_cast<size_t>(lane)) * size, row + k * size, size);
}

void unpack_float_row(const PackedMatrix& matrix, const uint8_t* tile, int lane, float* out) {
    float lanes[16];
    for (size_t k = 0; k < static_cast<size_t>(matrix.columns); ++k) {
        const uint8_t* p = tile + 16 * k * (matrix.kind == Kind::kF32 ? 4 : 2);
        if (matrix.kind == Kind::kF32) {
            store(lanes, load(reinterpret_cast<const float*>(p)));
        } else if (matrix.kind == Kind::kF16) {
            store(lanes, load_f16(reinterpret_cast<const uint16_t*>(p)));
        } else {
            store(lanes, load_bf16(reinterpret_cast<const uint16_t*>(p)));
        }
        out[k] = lanes[lane];
    }
}

float half_lane(const uint8_t* p, int lane) {
    float lanes[16];
    store(lanes, load_f16(reinterpret_cast<const uint16_t*>(p)));
    return lanes[lane];
}

// Scale and minimum of each half of a group of one row.
struct RowScales {
    float scale[2], minimum = 0.0f;
};

RowScales row_scales(const PackedMatrix& matrix, const uint8_t* tile, int index, int lane) {
    const size_t g = static_cast<size_t>(index);
    const uint8_t* scales = tile + scales_at(matrix.kind, g);
    const uint8_t* own = scales + 64 + g % kSuperGroups * 32;
    const float d = half_lane(scales, lane);
    RowScales result;
    switch (matrix.kind) {
        case Kind::kByteSuperSigned:
            result.scale[0] = d * static_cast<float>(static_cast<int8_t>(own[lane]));
            result.scale[1] = d * static_cast<float>(static_cast<int8_t>(own[16 + lane]));
            return result;
        case Kind::kNibbleSuper:
        case Kind::kByteSuper:
            result.scale[0] = d * static_cast<float>(own[lane]);
            result.minimum = -(half_lane(scales + 32, lane) * static_cast<float>(own[16 + lane]));
            break;
        case Kind::kNibbleMinimum:
        case Kind::kByteMinimum: result.minimum = half_lane(scales + 32, lane); [[fallthrough]];
        default: result.scale[0] = d;
    }
    result.scale[1] = result.scale[0];
    return result;
}

int offset_of(Kind kind) {
    switch (kind) {
        case Kind::kNibble: return 8;
        case Kind::kByte:
        case Kind::kByteSuperSigned: return 128;
        default: return 0;
    }
}

}  // namespace

bool kind_of(BlockType type, int columns, Kind& kind) {
    Layout layout;
    if (!layout_of(type, layout) || columns <= 0 || columns % layout.block_columns != 0) return false;
    kind = layout.kind;
    return true;
}

void pack_tiles(BlockType type, const uint8_t* blocks, size_t row_bytes, const PackedMatrix& matrix, int first_tile,
                int last_tile, uint8_t* data) {
    const size_t bytes = tile_bytes(matrix.kind, matrix.columns);
    for (int index = first_tile; index < last_tile; ++index) {
        uint8_t* tile = data + bytes * static_cast<size_t>(index);
        for (int lane = 0; lane < kTileRows; ++lane) {
            const int row = index * kTileRows + lane;
            if (row >= matrix.rows) continue;  // the arena's memory is zero
            const uint8_t* source = blocks + row_bytes * static_cast<size_t>(row);
            if (!is_quantized(matrix.kind)) {
                pack_float_row(matrix, source, lane, tile);
                continue;
            }
            Group group;
            for (int g = 0; g < matrix.groups(); ++g) {
                read_group(type, source, g, group);
                write_group(matrix, group, g, lane, tile);
            }
        }
    }
}

void unpack_row(const PackedMatrix& matrix, int row, float* out) {
    const int lane = row % kTileRows;
    const uint8_t* tile =
        matrix.data + tile_bytes(matrix.kind, matrix.columns) * static_cast<size_t>(row / kTileRows);
    if (!is_quantized(matrix.kind)) {
        unpack_float_row(matrix, tile, lane, out);
        return;
    }
    const int offset = offset_of(matrix.kind);
    for (int g = 0; g < matrix.groups(); ++g) {
        const uint8_t* quads = tile + quads_at(matrix.kind, static_cast<size_t>(g)) + 4 * lane;
        const RowScales scales = row_scales(matrix, tile, g, lane);
        for (int k = 0; k < kGroup; ++k) {
            int q;
            if (quad_bytes(matrix.kind) == 256) {
                const uint8_t byte = quads[64 * (k % 16 / 4) + k % 4];
                q = k < 16 ? byte & 15 : byte >> 4;
            } else {
                q = quads[64 * (k / 4) + k % 4];
            }
            out[g * kGroup + k] = static_cast<float>(q - offset) * scales.scale[k / 16] + scales.minimum;
        }
    }
}

}  // namespace sgrt
