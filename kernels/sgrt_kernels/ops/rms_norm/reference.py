"""Root-mean-square normalization in plain torch."""

from __future__ import annotations

from typing import overload

import torch
from torch import Tensor


@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: None = None) -> Tensor: ...
@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: Tensor) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """`weight * x / sqrt(mean(x^2) + epsilon)` over the last dimension; see the op."""
    if residual is None:
        return _normalized(x, weight, epsilon)
    total = x + residual
    return _normalized(total, weight, epsilon), total


def _normalized(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon)
    return (wide * scale * weight.to(wide.dtype)).to(x.dtype)
