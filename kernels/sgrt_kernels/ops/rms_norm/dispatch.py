"""Chooses how to normalize, by the tensors' device."""

from __future__ import annotations

from typing import overload

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.ops.rms_norm import reference
from sgrt_kernels.ops.rms_norm.reference import QuantizedRows


@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: None = None) -> Tensor: ...
@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: Tensor) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """`weight * x / sqrt(mean(x^2) + epsilon)` over the last dimension.

    x: [tokens, width] or [tokens, heads, width]; weight: [width]. With `residual`, of x's shape, the sum
    `s = x + residual` is normalized and (normalized, s) is returned. Sums run in float32; results have x's dtype.
    """
    if runs_triton(x):
        result: Tensor | tuple[Tensor, Tensor] = triton_kernels("rms_norm").rms_norm(
            x, weight, epsilon, residual
        )
        return result
    if residual is None:
        return reference.rms_norm(x, weight, epsilon)
    return reference.rms_norm(x, weight, epsilon, residual)


def rms_norm_quantized(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> QuantizedRows:
    """The norm of the rows of x [tokens, width] in float8_e4m3fn, the largest of a row at 448, a float32 scale per row.

    What a product in float8 reads. Arguments as for `rms_norm`.
    """
    if runs_triton(x):
        result: QuantizedRows = triton_kernels("rms_norm").rms_norm_quantized(x, weight, epsilon, residual)
        return result
    return reference.rms_norm_quantized(x, weight, epsilon, residual)
