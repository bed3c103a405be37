"""Casting to float8 in Triton, by the hardware where it can and by bit moves where it cannot (before sm_89)."""

from __future__ import annotations

import triton
import triton.language as tl

_ROUNDER = tl.constexpr(12582912.0)  # 1.5 * 2 ** 23: adding it leaves a float32 no bits below one


@triton.jit
def to_even(x):
    """Round to nearest even; |x| < 2 ** 22."""
    return (x + _ROUNDER) - _ROUNDER


@triton.jit
def float8_bits(x):
    """float8_e4m3fn code of |x| <= 448 as uint8, rounded to nearest even."""
    magnitude = tl.abs(x)
    bits = magnitude.to(tl.int32, bitcast=True)
    rounded = (bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20
    normal = rounded - ((127 - 7) << 3)
    subnormal = to_even(magnitude * 512.0).to(tl.int32)
    code = tl.where(magnitude < 0.015625, subnormal, normal)
    return (code | tl.where(x < 0, 0x80, 0)).to(tl.uint8)
