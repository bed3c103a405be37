"""One-byte scales: five bits of exponent, three of fraction, no sign.

    code = (exponent << 3) | fraction        value = 2 ** (exponent - 21) * (1 + fraction / 8)

The byte is a slice of a float32's bits, so decoding is one shift and one addition on every device. Encoding rounds
up: what was divided by the coded scale never exceeds the range the scale was computed for.
"""

from __future__ import annotations

import torch
from torch import Tensor

FRACTION_SHIFT = 20  # float32 has 23 fraction bits, three of them are kept
CODE_OFFSET = (127 - 21) << 23  # bits of 2 ** -21, the value of code 0
SMALLEST = 2.0**-21
LARGEST = 2.0**10 * 1.875


def encode_scales(scales: Tensor) -> Tensor:
    """The smallest codes whose values reach `scales` (float32, >= 0), as uint8; beyond LARGEST the last code."""
    bits = scales.to(torch.float32).clamp(SMALLEST, LARGEST).contiguous().view(torch.int32)
    rounded_up = (bits - CODE_OFFSET + (1 << FRACTION_SHIFT) - 1) >> FRACTION_SHIFT
    return rounded_up.to(torch.uint8)


def decode_scales(codes: Tensor) -> Tensor:
    """Values of uint8 `codes`, float32."""
    return ((codes.to(torch.int32) << FRACTION_SHIFT) + CODE_OFFSET).view(torch.float32)
