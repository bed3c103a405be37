"""Chooses how to rotate, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.ops.rope import reference
from sgrt_kernels.rope_scaling import RopeScaling


def rope_table(
    positions: Tensor, head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position's angles, each [tokens, head_dim / 2] float32.

    positions: [tokens]. Pair `i` turns by `position * theta ** (-2 i / head_dim)`, stretched by `scaling`.
    """
    if runs_triton(positions):
        table: tuple[Tensor, Tensor] = triton_kernels("rope").rope_table(positions, head_dim, theta, scaling)
        return table
    return reference.rope_table(positions, head_dim, theta, scaling)


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (x[i], x[i + head_dim / 2]) of every head; computed in float32, returned in x's dtype.

    x: [tokens, heads, head_dim]; cos, sin: [tokens, head_dim / 2] float32.
    """
    if runs_triton(x):
        result: Tensor = triton_kernels("rope").apply_rope(x, cos, sin)
        return result
    return reference.apply_rope(x, cos, sin)
