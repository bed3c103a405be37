// Rows of activations as the matrix kernels read them: int8 in groups of 32 columns, each with its scale.
//
// Group of a row: scale = max|x| / 127, q = round(x * (127 / max|x|)), ties to even; all zero where max|x| < 1e-30.
// Sixteen rows lie together, group by group, so that a kernel reaches all of them from one address; a single row
// lies alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "packed_matrix.h"
#include "vector.h"

namespace sgrt {

constexpr int kBlockRows = 16;

struct Activations {
    int rows = 0, columns = 0;
    bool quantizes = true;       // whether `put` fills all but `floats`
    bool keeps_floats = false;   // whether `put` fills `floats`
    int width = kBlockRows;      // rows that lie together: kBlockRows, or 1 for a single row
    int8_t* values = nullptr;    // [blocks][groups][width][32]
    float* scales = nullptr;     // [blocks][groups][width]
    float* sums = nullptr;       // [blocks][groups][width], scale times the sum of the group's q
    int32_t* negated = nullptr;  // [blocks][groups][2][width], minus the sum of the group's q; of its first 16 alone
    float* floats = nullptr;     // [rows][columns], what was quantized, for float matrices

    int groups() const { return columns / kGroup; }

    // Bytes that `bind` needs for a number of rows.
    static size_t bytes(int rows, int columns) {
        const size_t padded = rows == 1 ? 1 : (static_cast<size_t>(rows) + 15) / 16 * 16;
        const size_t groups = static_cast<size_t>(columns) / kGroup;
        const size_t per_group = kGroup + 2 * sizeof(float) + 2 * sizeof(int32_t);
        return padded * (groups * per_group + static_cast<size_t>(columns) * sizeof(float)) + 5 * 64;
    }

    // Lay the arrays out in `memory`, which is aligned to 64 bytes.
    void bind(uint8_t* memory, int row_count, int column_count) {
        rows = row_count;
        columns = column_count;
        width = row_count == 1 ? 1 : kBlockRows;
        const size_t padded = row_count == 1 ? 1 : (static_cast<size_t>(row_count) + 15) / 16 * 16;
        const size_t cells = padded * static_cast<size_t>(groups());
        const auto take = [&](size_t size) {
            uint8_t* place = memory;
            memory += (size + 63) / 64 * 64;
            return place;
        };
        values = reinterpret_cast<int8_t*>(take(cells * kGroup));
        scales = reinterpret_cast<float*>(take(cells * sizeof(float)));
        sums = reinterpret_cast<float*>(take(cells * sizeof(float)));
        negated = reinterpret_cast<int32_t*>(take(cells * 2 * sizeof(int32_t)));
        floats = reinterpret_cast<float*>(take(padded * static_cast<size_t>(column_count) * sizeof(float)));
    }

    // Index of [row's block][0][row in block] in an array of one cell per group.
    size_t first_cell(int row) const {
        const size_t block = static_cast<size_t>(row / width), lane = static_cast<size_t>(row % width);
        return block * static_cast<size_t>(groups() * width) + lane;
    }

    // Quantize one row of `columns` floats.
    void put(int row, const float* x) { put_groups(row, 0, groups(), x); }

    // Quantize some groups of a row, from group `first_group` on.
    void put_groups(int row, int first_group, int count, const float* x) {
        if (quantizes) {
            const size_t first = first_cell(row), stride = static_cast<size_t>(width);
            for (int g = 0; g < count; ++g) put_group(first, static_cast<size_t>(first_group + g), stride, x + g * kGroup);
        }
        if (keeps_floats) {
            float* place = floats + static_cast<size_t>(row) * static_cast<size_t>(columns) + first_group * kGroup;
            std::memcpy(place, x, sizeof(float) * static_cast<size_t>(count * kGroup));
        }
    }

  private:
    void put_group(size_t first, size_t g, size_t stride, const float* x) {
        const size_t cell = first + g * stride;
        const f32x16 low = load(x), high = load(x + kLanes);
        const float largest = max_lanes(max(absolute(low), absolute(high)));
        const bool is_zero = !(largest >= 1e-30f);
        const float scale = is_zero ? 0.0f : largest / 127.0f;
        const f32x16 inverse = splat(is_zero ? 0.0f : 127.0f / largest);
        const i32x16 q_low = round_to_int(mul(low, inverse)), q_high = round_to_int(mul(high, inverse));
        store_i8(values + cell * kGroup, q_low);
        store_i8(values + cell * kGroup + kLanes, q_high);
        // Small integers: exact in any order.
        const float sum_low = sum_lanes(to_float(q_low)), sum_high = sum_lanes(to_float(q_high));
        const size_t pair = (first - first % stride) * 2 + g * stride * 2 + first % stride;
        negated[pair] = -static_cast<int32_t>(sum_low + sum_high);
        negated[pair + stride] = -static_cast<int32_t>(sum_low);
        scales[cell] = scale;
        sums[cell] = scale * (sum_low + sum_high);
    }
};

}  // namespace sgrt
