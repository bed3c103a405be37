// Elementary functions by lanes: the same bits on every variant of vector.h.
#pragma once

#include "vector.h"

namespace sgrt {

// e^x to about one unit in the last place; 0 below -87.3, so that minus infinity gives 0.
// Range reduction to [-ln2/2, ln2/2] and the degree-6 polynomial of the Cephes library's expf.
inline f32x16 exponential(f32x16 x) {
    const f32x16 lowest = splat(-87.3f);
    const f32x16 clamped = min(max(x, lowest), splat(88.3f));
    const i32x16 power = round_to_int(mul(clamped, splat(1.44269504088896341f)));
    const f32x16 n = to_float(power);
    f32x16 r = fma(n, splat(-0.693359375f), clamped);
    r = fma(n, splat(2.12194440e-4f), r);
    f32x16 p = splat(1.9875691500e-4f);
    p = fma(p, r, splat(1.3981999507e-3f));
    p = fma(p, r, splat(8.3334519073e-3f));
    p = fma(p, r, splat(4.1665795894e-2f));
    p = fma(p, r, splat(1.6666665459e-1f));
    p = fma(p, r, splat(5.0000001201e-1f));
    p = add(fma(p, mul(r, r), r), splat(1.0f));
    // 2^power as a float: power lies in [-126, 127].
    const f32x16 scale = as_float(shift_left<23>(add_int(power, splat_int(127))));
    return select_less(x, lowest, splat(0.0f), mul(p, scale));
}

// 2^x to about one unit in the last place, for x of at most 127; 0 below -126, so that minus infinity gives 0. What is
// left of x behind the nearest whole number goes through a polynomial of degree 5 (minimax of the relative error).
inline f32x16 power_of_two(f32x16 x) {
    const f32x16 lowest = splat(-126.0f);
    const f32x16 clamped = max(x, lowest);
    const i32x16 power = round_to_int(clamped);
    const f32x16 r = sub(clamped, to_float(power));
    f32x16 p = splat(1.326472731e-3f);
    p = fma(p, r, splat(9.671512991e-3f));
    p = fma(p, r, splat(5.550733581e-2f));
    p = fma(p, r, splat(2.402224243e-1f));
    p = fma(p, r, splat(6.931470037e-1f));
    p = fma(p, r, splat(1.0f));
    const f32x16 scale = as_float(shift_left<23>(add_int(power, splat_int(127))));
    return select_less(x, lowest, splat(0.0f), mul(p, scale));
}

// NaN becomes the lowest number, infinities the largest of their sign.
inline void make_finite(float* x, int count) {
    const f32x16 most = splat(3.4028234664e38f), least = splat(-3.4028234664e38f);
    for (int i = 0; i < count; i += kLanes) store(x + i, min(max(load(x + i), least), most));
}

inline f32x16 hyperbolic_tangent(f32x16 x) {
    const f32x16 e = exponential(mul(x, splat(2.0f)));
    return sub(splat(1.0f), div(splat(2.0f), add(e, splat(1.0f))));
}

inline f32x16 silu(f32x16 x) {
    return div(x, add(splat(1.0f), exponential(sub(splat(0.0f), x))));
}

inline f32x16 gelu_tanh(f32x16 x) {
    const f32x16 cubic = fma(mul(mul(x, x), x), splat(0.044715f), x);
    const f32x16 bent = hyperbolic_tangent(mul(cubic, splat(0.797884560802865f)));
    return mul(mul(x, splat(0.5f)), add(splat(1.0f), bent));
}

}  // namespace sgrt
