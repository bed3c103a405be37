"""Root-mean-square normalization on a GPU, with the residual sum and, where wanted, the cast to float8."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.float8 import float8_bits
from sgrt_kernels.ops.rms_norm.reference import FLOAT8_RANGE, SMALLEST_STEP, QuantizedRows
from sgrt_kernels.sealed_codes import has_float8

_RANGE = tl.constexpr(FLOAT8_RANGE)
_SMALLEST = tl.constexpr(SMALLEST_STEP)


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
    HEADS: tl.constexpr,  # rows of a token, side by side
    BLOCK: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr,
    QUANTIZES: tl.constexpr,  # float8 rows with one scale each; by bit moves where `out` is uint8
):
    """One row. Grid: (tokens * HEADS,)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    in_row = column < width
    x_at = row // HEADS * x_stride + row % HEADS * width + column
    value = tl.load(x + x_at, mask=in_row, other=0.0)
    if HAS_RESIDUAL:
        # summed in the dtype of the stream, as the reference does: the norm sees what later layers will see
        value = value + tl.load(residual + row * width + column, mask=in_row, other=0.0)
        tl.store(total + row * width + column, value, mask=in_row)
    wide = value.to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(wide * wide, axis=0) / width + epsilon)
    normal = wide * scale * tl.load(weight + column, mask=in_row, other=0.0).to(tl.float32)
    if QUANTIZES:
        step = tl.maximum(tl.max(tl.abs(normal), axis=0) / _RANGE, _SMALLEST)
        normal = tl.minimum(tl.maximum(normal / step, -_RANGE), _RANGE)
        tl.store(scales + row, step)
    if QUANTIZES and out.dtype.element_ty == tl.uint8:
        tl.store(out + row * width + column, float8_bits(normal), mask=in_row)
    else:
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
) -> QuantizedRows:
    """The norm as float8 rows with a scale each; see the op."""
    out = torch.empty(x.shape, dtype=torch.float8_e4m3fn, device=x.device)
    scales = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    total = torch.empty(x.shape, dtype=x.dtype, device=x.device) if residual is not None else x
    codes = out if has_float8(x.device) else out.view(torch.uint8)
    _launch(x, weight, epsilon, residual, codes, total, scales)
    return QuantizedRows(rows=out, scales=scales, stream=total)


def _launch(
    x: Tensor,
    weight: Tensor,
    epsilon: float,
    residual: Tensor | None,
    out: Tensor,
    total: Tensor,
    scales: Tensor | None,
) -> None:
    width = x.shape[-1]
    rows = x.numel() // max(width, 1)
    if rows == 0:
        return
    heads = 1 if x.ndim == 2 else x.shape[1]
    if x.stride(-1) != 1 or (x.ndim == 3 and x.stride(1) != width):
        x = x.contiguous()
    block = triton.next_power_of_2(width)
    rms_norm_kernel[(rows,)](
        x,
        residual.contiguous() if residual is not None else x,
        weight,
        out,
        total,
        scales if scales is not None else out,
        width,
        x.stride(0),
        epsilon,
        HEADS=heads,
        BLOCK=block,
        HAS_RESIDUAL=residual is not None,
        QUANTIZES=scales is not None,
        num_warps=max(1, min(16, block // 512)),
    )
