"""How rotary frequencies are stretched for contexts longer than those seen in training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling:
    """Every frequency divided by `factor` (position interpolation, arXiv 2306.15595)."""

    factor: float

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by."""
        return 1.0

    def scaled(self, frequencies: Tensor, theta: float) -> Tensor:
        """The stretched frequencies, [head_dim / 2]."""
        return frequencies / self.factor


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """Long waves divided by `factor`, short ones kept, a blend between (Llama 3.1)."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int  # tokens

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by."""
        return 1.0

    def scaled(self, frequencies: Tensor, theta: float) -> Tensor:
        """The stretched frequencies, [head_dim / 2]."""
        turns = self.original_context * frequencies / (2 * math.pi)  # full turns in the original context
        span = self.high_frequency_factor - self.low_frequency_factor
        kept = ((turns - self.low_frequency_factor) / span).clamp(0.0, 1.0)
        return frequencies * (kept + (1.0 - kept) / self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnScaling:
    """Frequencies divided by `factor` where a wave turns seldom, with a gain on the logits (arXiv 2309.00071)."""

    factor: float
    original_context: int  # tokens
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None  # None: the paper's 0.1 ln(factor) + 1

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by."""
        if self.attention_factor is not None:
            return self.attention_factor
        return 1.0 if self.factor <= 1.0 else 0.1 * math.log(self.factor) + 1.0

    def scaled(self, frequencies: Tensor, theta: float) -> Tensor:
        """The stretched frequencies, [head_dim / 2]."""
        pairs = frequencies.shape[0]

        def pair_of(turns: float) -> float:
            return pairs * math.log(self.original_context / (turns * 2 * math.pi)) / math.log(theta)

        low = max(math.floor(pair_of(self.beta_fast)), 0)
        high = min(math.ceil(pair_of(self.beta_slow)), 2 * pairs - 1)
        index = torch.arange(pairs, dtype=frequencies.dtype, device=frequencies.device)
        stretched = ((index - low) / max(high - low, 0.001)).clamp(0.0, 1.0)
        return frequencies * (1.0 - stretched) + frequencies / self.factor * stretched


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorScaling:
    """Every frequency divided by a factor of its own, the form in which GGUF files store Llama 3.1's rule."""

    factors: tuple[float, ...]  # head_dim / 2

    @property
    def amplitude(self) -> float:
        """What cosines and sines are multiplied by."""
        return 1.0

    def scaled(self, frequencies: Tensor, theta: float) -> Tensor:
        """The stretched frequencies, [head_dim / 2]."""
        return frequencies / torch.tensor(self.factors, dtype=frequencies.dtype, device=frequencies.device)


RopeScaling = LinearScaling | Llama3Scaling | YarnScaling | FactorScaling
