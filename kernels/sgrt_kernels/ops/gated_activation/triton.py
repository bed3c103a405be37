"""The gate of a feed-forward block on a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.activation import Activation

_BLOCK = 1024
_SQRT_2_OVER_PI = tl.constexpr(0.7978845608028654)


@triton.jit
def gated_activation_kernel(gate_up, out, width, in_stride, BLOCK: tl.constexpr, IS_SILU: tl.constexpr):
    """Grid: (tokens, blocks of a row)."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    in_row = column < width
    gate = tl.load(gate_up + row * in_stride + column, mask=in_row, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * in_stride + width + column, mask=in_row, other=0.0).to(tl.float32)
    if IS_SILU:
        bent = gate / (1.0 + tl.exp(-gate))
    else:
        # x (1 + tanh(y)) / 2 = x / (1 + exp(-2y))
        inner = _SQRT_2_OVER_PI * (gate + 0.044715 * gate * gate * gate)
        bent = gate / (1.0 + tl.exp(-2.0 * inner))
    tl.store(out + row * width + column, (bent * up).to(out.dtype.element_ty), mask=in_row)


def gated_activation(gate_up: Tensor, kind: Activation) -> Tensor:
    """`activation(gate) * up`; see the op."""
    tokens, both = gate_up.shape
    out = torch.empty((tokens, both // 2), dtype=gate_up.dtype, device=gate_up.device)
    if out.numel() == 0:
        return out
    if gate_up.stride(1) != 1:
        gate_up = gate_up.contiguous()
    gated_activation_kernel[(tokens, triton.cdiv(both // 2, _BLOCK))](
        gate_up,
        out,
        both // 2,
        gate_up.stride(0),
        BLOCK=_BLOCK,
        IS_SILU=kind is Activation.SILU,
        num_warps=4,
    )
    return out
