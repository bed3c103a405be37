"""Root-mean-square normalization on a GPU, with the residual sum and, where wanted, the cast to float8."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_FLOAT8_RANGE = tl.constexpr(448.0)


@triton.jit
def rms_norm_kernel(
    x,
    residual,
    weight,
    out,
    total,
    scales,
    width,
    x_stride,
    epsilon,
    BLOCK: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    QUANTIZES: tl.constexpr,
):
    """One row. Grid: (tokens,). QUANTIZES: float8 rows with one scale each."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    in_row = column < width
    value = tl.load(x + row * x_stride + column, mask=in_row, other=0.0)
    if HAS_RESIDUAL:
        # summed in the dtype of the stream, as the reference does: the norm sees what later layers will see
        value = value + tl.load(residual + row * width + column, mask=in_row, other=0.0)
        tl.store(total + row * width + column, value, mask=in_row)
    wide = value.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, axis=0) / width + epsilon)
    normal = wide * scale * tl.load(weight + column, mask=in_row, other=0.0).to(tl.float32)
    if QUANTIZES:
        step = tl.maximum(tl.max(tl.abs(normal), axis=0) / _FLOAT8_RANGE, 1e-30)
        normal = tl.minimum(tl.maximum(normal / step, -_FLOAT8_RANGE), _FLOAT8_RANGE)
        tl.store(scales + row, step)
    tl.store(out + row * width + column, normal.to(out.dtype.element_ty), mask=in_row)


def rms_norm(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """`weight * x / sqrt(mean(x^2) + epsilon)` over the last dimension; see the op."""
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    total = torch.empty_like(out) if residual is not None else out
    _launch(x, weight, epsilon, residual, out, total, None)
    return out if residual is None else (out, total)


def rms_norm_quantized(
    x: Tensor, weight: Tensor, epsilon: float, residual: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """The norm as float8_e4m3fn rows, their scales [tokens] float32, and the stream `x + residual` (or x)."""
    out = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    total = torch.empty(x.shape, dtype=x.dtype, device=x.device) if residual is not None else x
    _launch(x, weight, epsilon, residual, out, total, scales)
    return out, scales, total


def _launch(
    x: Tensor,
    weight: Tensor,
    epsilon: float,
    residual: Tensor | None,
    out: Tensor,
    total: Tensor,
    scales: Tensor | None,
) -> None:
    tokens, width = x.shape
    if tokens == 0:
        return
    if x.stride(1) != 1:
        x = x.contiguous()
    block = triton.next_power_of_2(width)
    rms_norm_kernel[(tokens,)](
        x,
        residual.contiguous() if residual is not None else x,
        weight,
        out,
        total,
        scales if scales is not None else out,
        width,
        x.stride(0),
        epsilon,
        BLOCK=block,
        HAS_RESIDUAL=residual is not None,
        QUANTIZES=scales is not None,
        num_warps=max(1, min(16, block // 512)),
    )
