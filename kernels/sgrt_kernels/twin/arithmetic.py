"""Fused multiply-add and sums over sixteen lanes, rounded as the CPU kernels round them."""

from __future__ import annotations

import torch
from torch import Tensor

LANES = 16
# A float64 has 29 bits that a float32 has no place for: all but the upper 3 of its low word. Half-way between two
# float32 only the first of them is set.
_KEPT_OF_WORD = 3
_HALF_WAY = -(1 << 31)


def fused(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """`a * b + c` of float32, rounded once; shapes are broadcast.

    The product is exact in float64. The sum is rounded there first: where that ends half-way between two float32, the
    second rounding must know on which side it was. (Sums below the normal numbers are exact in float64.)
    """
    product = a.double() * b.double()
    addend = c.double()
    total = product + addend
    low_words = total.view(torch.int32)[..., ::2]
    is_half_way = (low_words << _KEPT_OF_WORD) == _HALF_WAY
    if bool(is_half_way.any()):
        where = is_half_way.nonzero(as_tuple=True)
        total[where] = _moved_off(total[where], product[where], addend.expand_as(total)[where])
    return total.float()


def _moved_off(total: Tensor, product: Tensor, addend: Tensor) -> Tensor:
    """`total`, moved by one unit of float64 towards what its rounding lost (Knuth's exact sum)."""
    rest = total - product
    lost = (product - (total - rest)) + (addend - rest)
    unit = (torch.sign(lost) * torch.sign(total)).to(torch.int64)
    return (total.view(torch.int64) + unit).view(torch.float64)


def sum_of_lanes(x: Tensor) -> Tensor:
    """The sum over the last dimension, sixteen lanes, in the kernels' tree: halves added to halves."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]
