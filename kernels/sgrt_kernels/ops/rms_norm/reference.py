"""Root-mean-square normalization in plain torch."""

from __future__ import annotations

from typing import NamedTuple, overload

import torch
from torch import Tensor

FLOAT8_RANGE = 448.0
SMALLEST_STEP = 1e-30


class QuantizedRows(NamedTuple):
    """Normalized rows in float8, and the stream that was normalized."""

    rows: Tensor  # float8_e4m3fn, x's shape
    scales: Tensor  # [rows] float32: a row is its codes times its scale
    stream: Tensor  # x + residual, or x


@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: None = None) -> Tensor: ...
@overload
def rms_norm(x: Tensor, weight: Tensor, epsilon: float, residual: Tensor) -> tuple[Tensor, Tensor]: ...
def rms_norm(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """`weight * x / sqrt(mean(x^2) + epsilon)` over the last dimension; see the op."""
    if residual is None:
        return _normalized(x, weight, epsilon).to(x.dtype)
    total = x + residual
    return _normalized(total, weight, epsilon).to(x.dtype), total


def rms_norm_quantized(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> QuantizedRows:
    """The norm of [tokens, width] in float8, a scale per row; see the op."""
    stream = x if residual is None else x + residual
    normal = _normalized(stream, weight, epsilon)
    step = (normal.abs().amax(dim=-1) / FLOAT8_RANGE).clamp(min=SMALLEST_STEP)
    codes = (normal / step[:, None]).clamp(-FLOAT8_RANGE, FLOAT8_RANGE)
    return QuantizedRows(rows=codes.to(torch.float8_e4m3fn), scales=step.to(torch.float32), stream=stream)


def _normalized(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """In float32, or in float64 where x is."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    scale = torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + epsilon)
    return wide * scale * weight.to(wide.dtype)
