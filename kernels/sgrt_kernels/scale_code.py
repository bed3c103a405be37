"""One-byte scales, relative to the largest of a group: three bits of exponent, five of fraction, no sign.

    code = (exponent << 5) | fraction        value = base * 2 ** (exponent - 7) * (1 + fraction / 32)

The byte is a slice of a float32's bits, so decoding is a shift, an addition and a product on every device. Encoding
rounds up: what was divided by the coded scale does not exceed the range the scale was computed for. A scale below
1/252 of the largest takes the smallest code; its channel is that much smaller than the group's largest.
"""

from __future__ import annotations

import torch
from torch import Tensor

FRACTION_SHIFT = 18  # float32 has 23 fraction bits, five of them are kept
CODE_OFFSET = (127 - 7) << 23  # bits of 2 ** -7, the value of code 0
SMALLEST = 2.0**-7
LARGEST = 63 / 32
SMALLEST_BASE = 2.0**-60  # in place of 0, so that a group of zeros divides


def bfloat16_above(scales: Tensor) -> Tensor:
    """The smallest bfloat16 values that reach `scales` (float32, >= 0), as float32; zeros become tiny."""
    bits = scales.clamp_min(SMALLEST_BASE).contiguous().view(torch.int32)
    return ((bits + 0xFFFF) >> 16 << 16).view(torch.float32)


def scale_bases(scales: Tensor) -> Tensor:
    """The base of each group, the last dimension of `scales` (float32, >= 0).

    Not rounded to fewer bits: scales times any number have the base times that number, and the same codes.
    """
    return (scales.amax(dim=-1) / LARGEST).clamp_min(SMALLEST_BASE)


def encode_scales(scales: Tensor, bases: Tensor) -> Tensor:
    """The smallest codes whose values reach `scales` [..., group], as uint8. bases: [...]."""
    bits = (scales / bases[..., None]).clamp(SMALLEST, LARGEST).contiguous().view(torch.int32)
    return ((bits - CODE_OFFSET + (1 << FRACTION_SHIFT) - 1) >> FRACTION_SHIFT).to(torch.uint8)


def decode_scales(codes: Tensor, bases: Tensor) -> Tensor:
    """Values of uint8 `codes` [..., group], float32. bases: [...] float32."""
    relative = ((codes.to(torch.int32) << FRACTION_SHIFT) + CODE_OFFSET).view(torch.float32)
    return relative * bases[..., None]
