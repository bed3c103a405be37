// Elements and scales of sealed pages as floats, sixteen at a time; sgrt_kernels/layout.py defines them.
#pragma once

#include "model.h"
#include "vector.h"

namespace sgrt {

enum class SealedType : int32_t { kInt8 = 0, kE4m3 = 1 };

// The largest magnitude of a code.
inline float code_range(SealedType type) { return type == SealedType::kInt8 ? 127.0f : 448.0f; }

// float8_e4m3fn in the low byte of each lane. Its exponent and fraction become a float32's; what has exponent 0
// there is read as a normal number in [2^-7, 2^-6) and put right.
inline f32x16 from_e4m3(i32x16 code) {
    const i32x16 magnitude = add_int(shift_left<20>(and_int(code, splat_int(0x7f))), splat_int(120 << 23));
    const f32x16 smallest = splat(0.015625f), read = as_float(magnitude);
    const f32x16 value = select_less(read, smallest, sub(add(read, read), smallest), read);
    return as_float(or_int(as_int(value), shift_left<24>(and_int(code, splat_int(0x80)))));
}

// Sixteen codes in a row.
template <SealedType kType>
inline f32x16 load_codes(const uint8_t* p) {
    if constexpr (kType == SealedType::kInt8) return load_i8(reinterpret_cast<const int8_t*>(p));
    else return from_e4m3(load_u8_int(p));
}

// Byte number kByte of every lane.
template <SealedType kType, int kByte>
inline f32x16 code_in_lanes(i32x16 four) {
    if constexpr (kType == SealedType::kInt8) return to_float(shift_right<24>(shift_left<24 - 8 * kByte>(four)));
    else return from_e4m3(shift_right<8 * kByte>(four));
}

// Scale codes (scale_code.py): three bits of exponent, five of fraction, relative to a base.
inline f32x16 decode_scales(i32x16 codes, f32x16 base) {
    return mul(as_float(add_int(shift_left<18>(codes), splat_int(120 << 23))), base);
}

// Scales and offsets of the keys of one page and kv head: key = code * scale + offset.
inline void read_key_scales(const SgrtSealedLayer& layer, size_t page, int kv_heads, int kv_head, int head_dim,
                            float* scales, float* offsets) {
    const size_t group = page * static_cast<size_t>(kv_heads) + static_cast<size_t>(kv_head);
    const size_t first = group * static_cast<size_t>(head_dim);
    const f32x16 base = splat(layer.key_scale_bases[group]);
    const f32x16 step = splat(layer.key_offset_scales[group]);
    for (int d = 0; d < head_dim; d += kLanes) {
        store(scales + d, decode_scales(load_u8_int(layer.key_scales + first + d), base));
        store(offsets + d, mul(load_i8(layer.key_offsets + first + d), step));
    }
}

}  // namespace sgrt
