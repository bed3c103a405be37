"""What a model is made of: the numbers that fix its forward pass, whatever file they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

from sgrt.errors import CorruptModel


class Activation(Enum):
    """The function that gates the feed-forward block."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearScaling:
    """Positions divided by `factor` (position interpolation, arXiv 2306.15595)."""

    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama3Scaling:
    """Llama 3.1's rule: low frequencies are divided by `factor`, high ones kept, those between blended."""

    factor: float
    low_frequency_factor: float
    high_frequency_factor: float
    original_context: int


@dataclass(frozen=True, slots=True, kw_only=True)
class YarnScaling:
    """YaRN (arXiv 2309.00071): interpolation by parts, and a factor on the attention logits' scale.

    `attention_factor` multiplies cos and sin; None means the paper's `0.1 ln(factor) + 1`.
    """

    factor: float
    original_context: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None

    @property
    def magnitude(self) -> float:
        """What cos and sin are multiplied by."""
        if self.attention_factor is not None:
            return self.attention_factor
        return 1.0 if self.factor <= 1.0 else 0.1 * math.log(self.factor) + 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorScaling:
    """Each frequency divided by a factor of its own, as GGUF files store Llama 3.1's rule."""

    factors: tuple[float, ...]  # head_dim / 2


RopeScaling = LinearScaling | Llama3Scaling | YarnScaling | FactorScaling


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """Rotary positions of one kind of layer."""

    theta: float
    scaling: RopeScaling | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerConfig:
    """What may differ between the layers of one model.

    `window` is how many tokens back a query sees, itself included; None means all of them.
    """

    rope: Rope
    window: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer.

    `embedding_scale` multiplies token embeddings. `attention_scale` multiplies query times key.
    A soft cap `c` turns a logit `x` into `c * tanh(x / c)`.

    Raises:
        CorruptModel: sizes contradict each other; the message names the field.
    """

    architecture: str  # a key of `sgrt.model.registry`
    layers: tuple[LayerConfig, ...]
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocabulary: int
    context: int  # tokens
    norm_epsilon: float
    activation: Activation
    tied_embeddings: bool
    qkv_bias: bool = False
    qk_norm: bool = False
    embedding_scale: float = 1.0
    attention_scale: float | None = None  # None: 1 / sqrt(head_dim)
    attention_soft_cap: float | None = None
    logit_soft_cap: float | None = None

    def __post_init__(self) -> None:
        for name in ("hidden", "heads", "kv_heads", "head_dim", "intermediate", "vocabulary", "context"):
            if getattr(self, name) < 1:
                raise CorruptModel(f"{self.architecture}: {name} is {getattr(self, name)}, must be at least 1")
        if not self.layers:
            raise CorruptModel(f"{self.architecture}: the model has no layers")
        if self.heads % self.kv_heads:
            raise CorruptModel(
                f"{self.architecture}: {self.heads} heads are not a multiple of {self.kv_heads} kv_heads"
            )
        if self.head_dim % 2:
            raise CorruptModel(f"{self.architecture}: head_dim {self.head_dim} is odd, rotary pairs need it even")

    @property
    def query_scale(self) -> float:
        """The factor on query times key."""
        return self.head_dim**-0.5 if self.attention_scale is None else self.attention_scale

    @property
    def query_width(self) -> int:
        """Channels of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Channels of all key heads (or value heads) together."""
        return self.kv_heads * self.head_dim
