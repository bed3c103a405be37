"""Chooses how to normalize, by the tensors' device."""

from __future__ import annotations

from typing import overload

from torch import Tensor

from sgrt_kernels.device import triton_kernels
from sgrt_kernels.ops.rms_norm import reference


@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: None = None) -> Tensor: ...
@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: Tensor) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """`weight * x / sqrt(mean(x^2) + epsilon)` over the last dimension.

    x: [tokens, width]; weight: [width]. With `residual` [tokens, width] the sum `s = x + residual` is normalized
    and (normalized, s) is returned. Sums run in float32; results have x's dtype.
    """
    if x.is_cuda:
        result: Tensor | tuple[Tensor, Tensor] = triton_kernels("rms_norm").rms_norm(
            x, weight, epsilon, residual
        )
        return result
    if residual is None:
        return reference.rms_norm(x, weight, epsilon)
    return reference.rms_norm(x, weight, epsilon, residual)
