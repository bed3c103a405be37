// What happens to one row of activations between the products.
//
// Norms: the sum of squares runs in 16 lanes by fma, columns in rising order, then over the lanes in a fixed tree;
// y = (x * (1 / sqrt(sum / columns + epsilon))) * weight.
#pragma once

#include <cmath>

#include "mathematics.h"
#include "vector.h"

namespace sgrt {

enum class Gate : int32_t { kSilu = 0, kGeluTanh = 1 };

// `columns` is a multiple of 16; x and out may be the same.
inline void rms_norm_row(const float* x, const float* weight, float epsilon, int columns, float* out) {
    f32x16 squares = splat(0.0f);
    for (int i = 0; i < columns; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
    const float mean = sum_lanes(squares) / static_cast<float>(columns);
    const f32x16 scale = splat(1.0f / std::sqrt(mean + epsilon));
    for (int i = 0; i < columns; i += kLanes) store(out + i, mul(mul(load(x + i), scale), load(weight + i)));
}

inline void add_row(float* x, const float* y, int columns) {
    for (int i = 0; i < columns; i += kLanes) store(x + i, add(load(x + i), load(y + i)));
}

// Rotate the pairs (x[i], x[i + half]) of one head by the position's cosines and sines, then multiply by `scale`.
inline void rotate_head(float* x, const float* cosines, const float* sines, int half, float scale) {
    const f32x16 factor = splat(scale);
    for (int i = 0; i < half; i += kLanes) {
        const f32x16 first = load(x + i), second = load(x + half + i);
        const f32x16 c = load(cosines + i), s = load(sines + i);
        store(x + i, mul(sub(mul(first, c), mul(second, s)), factor));
        store(x + half + i, mul(add(mul(second, c), mul(first, s)), factor));
    }
}

inline f32x16 gated(Gate gate, f32x16 x, f32x16 up) {
    return mul(gate == Gate::kSilu ? silu(x) : gelu_tanh(x), up);
}

}  // namespace sgrt
