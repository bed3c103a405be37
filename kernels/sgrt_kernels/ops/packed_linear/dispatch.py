"""Chooses how to multiply with packed weights: always the torch definition; the CPU kernels run whole steps instead."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.ops.packed_linear import reference
from sgrt_kernels.ops.packed_linear.packed_weight import PackedWeight


def packed_linear(x: Tensor, weight: PackedWeight) -> Tensor:
    """`x @ weight.T` as the CPU kernels define it; x: [tokens, columns] float32, returns [tokens, rows] float32."""
    return reference.packed_linear(x, weight)
