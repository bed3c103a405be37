"""The product with packed weights in plain torch: the definition that the CPU kernels compute as well.

Activations of a token, in groups of 32: `scale = max|x| / 127`, `q = round(x * (127 / max|x|))`, ties to even; all
zero where `max|x| < 1e-30`. For one output, groups in rising order:

    result = fma(sum of q_weight * q_activation, scale_weight * scale_activation, result)
    result = fma(minimum_weight, scale_activation * sum of q_activation, result)    types with minima

The integer sums are exact, so their order is free; Q6_K has two a group, of 16 columns each.
"""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.ops.packed_linear.packed_weight import GROUP, PackedWeight
from sgrt_kernels.twin.arithmetic import fused

_SMALLEST = 1e-30
_TOKENS_AT_ONCE = 16  # a group's sums stay in the cache


def quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """Activations [tokens, columns] as integers [tokens, groups, 32] float32 and scales [tokens, groups]."""
    groups = x.view(x.shape[0], -1, GROUP)
    largest = groups.abs().amax(dim=2)
    is_zero = largest < _SMALLEST
    # Not `127.0 / largest`, which torch computes as the reciprocal times 127, rounded twice.
    inverse = torch.full_like(largest, 127.0).div_(largest).masked_fill(is_zero, 0.0)
    scales = (largest / 127.0).masked_fill(is_zero, 0.0)
    return torch.round(groups * inverse[..., None]), scales


def packed_linear(x: Tensor, weight: PackedWeight) -> Tensor:
    """`x @ weight.T`; see the op."""
    out = x.new_empty((x.shape[0], weight.rows))
    for start in range(0, x.shape[0], _TOKENS_AT_ONCE):
        rows = slice(start, start + _TOKENS_AT_ONCE)
        out[rows] = _product(x[rows].contiguous(), weight)
    return out


def _product(x: Tensor, weight: PackedWeight) -> Tensor:
    q, scales = quantized(x)
    result = x.new_zeros((x.shape[0], weight.rows))
    halves = weight.scales.shape[1]
    for group in range(weight.q.shape[0]):
        ours, theirs = q[:, group], weight.q[group].to(torch.float32)
        scale = scales[:, group, None]
        for half in range(halves):
            part = slice(half * GROUP // halves, (half + 1) * GROUP // halves)
            # Below 2^24, so float32 holds the sums exactly.
            sums = ours[:, part] @ theirs[:, part].T
            result = fused(sums, weight.scales[group, half] * scale, result)
        if weight.minima is not None:
            result = fused(weight.minima[group], scale * ours.sum(dim=1, keepdim=True), result)
    return result
