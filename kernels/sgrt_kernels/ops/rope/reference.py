"""Rotary position embedding in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.rope_scaling import RopeScaling


def rope_table(
    positions: Tensor, head_dim: int, theta: float, scaling: RopeScaling | None = None
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position's angles; see the op. Angles are float64, so far positions stay exact."""
    frequencies, amplitude = rope_frequencies(head_dim, theta, scaling)
    frequencies = frequencies.to(positions.device)
    angles = positions.to(torch.float64)[:, None] * frequencies[None, :]
    return (angles.cos() * amplitude).to(torch.float32), (angles.sin() * amplitude).to(torch.float32)


def rope_frequencies(head_dim: int, theta: float, scaling: RopeScaling | None = None) -> tuple[Tensor, float]:
    """Radians a token of every pair, [head_dim / 2] float64, and the factor on cosines and sines."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim
    frequencies = torch.pow(torch.tensor(theta, dtype=torch.float64), -exponents)
    if scaling is None:
        return frequencies, 1.0
    return scaling.scaled(frequencies, theta), scaling.amplitude


def apply_rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate the pairs (x[i], x[i + head_dim / 2]) of every head; see the op."""
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    first, second = wide.chunk(2, dim=-1)
    cos, sin = cos[:, None, :].to(wide.dtype), sin[:, None, :].to(wide.dtype)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
