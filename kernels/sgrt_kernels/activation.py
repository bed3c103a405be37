"""The gate functions of the feed-forward blocks."""

from __future__ import annotations

from enum import Enum


class Activation(Enum):
    """How the gate half of a feed-forward block is bent before it multiplies the other half."""

    SILU = "silu"  # x * sigmoid(x)
    GELU_TANH = "gelu_tanh"  # x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2
