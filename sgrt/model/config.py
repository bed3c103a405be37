"""What a model is made of: the numbers that fix its forward pass, whatever file they came from."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sgrt.errors import CorruptModel
from sgrt_kernels.activation import Activation
from sgrt_kernels.rope_scaling import RopeScaling


class ContradictoryConfig(CorruptModel):
    """Sizes of a configuration contradict each other; whoever read it says where it stands."""


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
        ContradictoryConfig: sizes contradict each other; the message names the field.
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
                raise ContradictoryConfig(
                    f"{self.architecture}: {name} is {getattr(self, name)}, must be at least 1"
                )
        if not self.layers:
            raise ContradictoryConfig(f"{self.architecture}: the model has no layers")
        if self.heads % self.kv_heads:
            raise ContradictoryConfig(
                f"{self.architecture}: {self.heads} heads are not a multiple of {self.kv_heads} kv_heads"
            )
        if self.head_dim % 2:
            raise ContradictoryConfig(
                f"{self.architecture}: head_dim {self.head_dim} is odd, rotary pairs need it even"
            )

    @property
    def query_scale(self) -> float:
        """The factor on query times key."""
        return 1.0 / math.sqrt(self.head_dim) if self.attention_scale is None else self.attention_scale

    @property
    def query_width(self) -> int:
        """Channels of all query heads together."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Channels of all key heads (or value heads) together."""
        return self.kv_heads * self.head_dim
