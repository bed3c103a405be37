"""Elementary functions and what happens to rows, as in `native/mathematics.h` and `native/rows.h`."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from sgrt_kernels.activation import Activation
from sgrt_kernels.ops.rope.reference import rope_frequencies
from sgrt_kernels.rope_scaling import RopeScaling
from sgrt_kernels.twin.arithmetic import LANES, fused, sum_of_lanes

_LOWEST, _HIGHEST = -87.3, 88.3
# The polynomial of the Cephes library's expf, from the highest power down.
_POLYNOMIAL = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
)

BINARY_LOGARITHM_OF_E = float(np.float32(1.44269504088896341))
_LOWEST_POWER = -126.0
_BINARY_POLYNOMIAL = (1.326472731e-3, 9.671512991e-3, 5.550733581e-2, 2.402224243e-1, 6.931470037e-1, 1.0)


def exponential(x: Tensor) -> Tensor:
    """e^x of float32; 0 below -87.3."""
    lowest = _number(_LOWEST)
    clamped = torch.clamp(x, lowest, _number(_HIGHEST))
    power = torch.round(clamped * _number(1.44269504088896341))
    rest = fused(power, _number(-0.693359375), clamped)
    rest = fused(power, _number(2.12194440e-4), rest)
    value = _number(_POLYNOMIAL[0])
    for coefficient in _POLYNOMIAL[1:]:
        value = fused(value, rest, _number(coefficient))
    value = fused(value, rest * rest, rest) + 1.0
    scale = ((power.to(torch.int32) + 127) << 23).view(torch.float32)
    return torch.where(x < lowest, torch.zeros_like(x), value * scale)


def power_of_two(x: Tensor) -> Tensor:
    """2^x of float32, x at most 127; 0 below -126."""
    clamped = x.clamp(min=_LOWEST_POWER)
    power = torch.round(clamped)
    rest = clamped - power
    value = _number(_BINARY_POLYNOMIAL[0])
    for coefficient in _BINARY_POLYNOMIAL[1:]:
        value = fused(value, rest, _number(coefficient))
    scale = ((power.to(torch.int32) + 127) << 23).view(torch.float32)
    return torch.where(x < _LOWEST_POWER, torch.zeros_like(x), value * scale)


def hyperbolic_tangent(x: Tensor) -> Tensor:
    """Tanh x of float32."""
    return 1.0 - 2.0 / (exponential(x * 2.0) + 1.0)


def soft_capped(x: Tensor, cap: float | None) -> Tensor:
    """`cap * tanh(x / cap)`; `x` itself without a cap."""
    if cap is None:
        return x
    bound = _number(cap)
    return bound * hyperbolic_tangent(x / bound)


def gated(gate: Tensor, up: Tensor, kind: Activation) -> Tensor:
    """`activation(gate) * up`."""
    match kind:
        case Activation.SILU:
            bent = gate / (1.0 + exponential(0.0 - gate))
        case Activation.GELU_TANH:
            cubic = fused(gate * gate * gate, _number(0.044715), gate)
            bent = (gate * 0.5) * (1.0 + hyperbolic_tangent(cubic * _number(0.797884560802865)))
    return bent * up


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root-mean-square norm over the last dimension, a multiple of sixteen."""
    squares = x.new_zeros((*x.shape[:-1], LANES))
    for part in x.reshape(*x.shape[:-1], -1, LANES).unbind(-2):
        squares = fused(part, part, squares)
    mean = sum_of_lanes(squares) / x.shape[-1]
    root = torch.from_numpy(np.sqrt((mean + _number(epsilon)).numpy()))  # torch's own may be off by one bit
    scale = 1.0 / root
    return x * scale[..., None] * weight


def rope_table(
    positions: Tensor, head_dim: int, theta: float, scaling: RopeScaling | None
) -> tuple[Tensor, Tensor]:
    """Cosines and sines [tokens, head_dim / 2] float32, by the functions of the C library."""
    frequencies, amplitude = rope_frequencies(head_dim, theta, scaling)
    angles = (positions.to(torch.float64)[:, None] * frequencies).tolist()
    cosines = [[math.cos(angle) * amplitude for angle in row] for row in angles]
    sines = [[math.sin(angle) * amplitude for angle in row] for row in angles]
    shape = (len(angles), head_dim // 2)
    return (
        torch.tensor(cosines, dtype=torch.float64).view(shape).float(),
        torch.tensor(sines, dtype=torch.float64).view(shape).float(),
    )


def _number(value: float) -> Tensor:
    """A number rounded to float32."""
    return torch.from_numpy(np.array(value, dtype=np.float32))
