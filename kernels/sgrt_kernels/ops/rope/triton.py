"""Rotary position embedding on a GPU."""

from __future__ import annotations

from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.ops.rope.reference import rope_frequencies
from sgrt_kernels.rope_scaling import RopeScaling


@triton.jit
def rotated_halves(first, second, cos, sin):
    """Rotate the pairs (first, second) by the angles' cosines and sines, in float32."""
    first, second = first.to(tl.float32), second.to(tl.float32)
    return first * cos - second * sin, second * cos + first * sin


@triton.jit
def rope_kernel(
    x,
    cos,
    sin,
    out,
    token_stride,
    HEADS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """All heads of one token. Grid: (tokens,)."""
    token = tl.program_id(0).to(tl.int64)
    head, pair = tl.arange(0, BLOCK_H), tl.arange(0, BLOCK)
    in_pairs = pair < HALF
    mask = (head < HEADS)[:, None] & in_pairs[None, :]
    c = tl.load(cos + token * HALF + pair, mask=in_pairs, other=0.0)
    s = tl.load(sin + token * HALF + pair, mask=in_pairs, other=0.0)
    at = token * token_stride + head[:, None] * (2 * HALF) + pair[None, :]
    first, second = tl.load(x + at, mask=mask, other=0.0), tl.load(x + at + HALF, mask=mask, other=0.0)
    first, second = rotated_halves(first, second, c[None, :], s[None, :])
    out_at = (token * HEADS + head[:, None]) * (2 * HALF) + pair[None, :]
    tl.store(out + out_at, first.to(out.dtype.element_ty), mask=mask)
    tl.store(out + out_at + HALF, second.to(out.dtype.element_ty), mask=mask)


def rope_table(
    positions: Tensor, head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position's angles; see the op.

    Frequencies are brought to the device once: a copy from the host cannot be captured in a CUDA graph.
    """
    frequencies, amplitude = _frequencies_on(positions.device, head_dim, theta, scaling)
    angles = positions.to(torch.float64)[:, None] * frequencies[None, :]
    return (angles.cos() * amplitude).to(torch.float32), (angles.sin() * amplitude).to(torch.float32)


@lru_cache(maxsize=64)
def _frequencies_on(
    device: torch.device, head_dim: int, theta: float, scaling: RopeScaling | None
) -> tuple[Tensor, float]:
    frequencies, amplitude = rope_frequencies(head_dim, theta, scaling)
    return frequencies.to(device), amplitude


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (x[i], x[i + head_dim / 2]) of every head; see the op."""
    tokens, heads, head_dim = x.shape
    out = torch.empty((tokens, heads, head_dim), dtype=x.dtype, device=x.device)
    if out.numel() == 0:
        return out
    if x.stride(2) != 1 or x.stride(1) != head_dim:
        x = x.contiguous()
    rope_kernel[(tokens,)](
        x,
        cos.contiguous(),
        sin.contiguous(),
        out,
        x.stride(0),
        HEADS=heads,
        BLOCK_H=triton.next_power_of_2(heads),
        HALF=head_dim // 2,
        BLOCK=triton.next_power_of_2(head_dim // 2),
        num_warps=4,
    )
    return out
