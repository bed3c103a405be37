"""The weights of a decoder in the form its forward pass uses: query, key and value in one matrix, gate and up too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import torch
from torch import Tensor

from sgrt.errors import CorruptModel
from sgrt.model.config import ModelConfig

HOST: Final = torch.device("cpu")


class WeightSource(Protocol):
    """Where weights are read from, by canonical name (`sgrt.checkpoint.checkpoint` lists the names)."""

    @property
    def config(self) -> ModelConfig:
        """The model's numbers."""
        ...

    def names(self) -> frozenset[str]:
        """The names there are."""
        ...

    def tensor(self, name: str, device: torch.device = HOST) -> Tensor:
        """The tensor under a name, in any float type, on `device`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionWeights:
    """Projections of one layer's attention. Norm weights are float32, the rest has the compute type."""

    query_key_value: Tensor  # [query_width + 2 * kv_width, hidden]
    query_key_value_bias: Tensor | None  # [query_width + 2 * kv_width]
    query_norm: Tensor | None  # [head_dim]
    key_norm: Tensor | None  # [head_dim]
    output: Tensor  # [hidden, query_width]
    output_bias: Tensor | None  # [hidden]


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedForwardWeights:
    """Projections of one layer's feed-forward block."""

    gate_up: Tensor  # [2 * intermediate, hidden], gate rows first
    down: Tensor  # [hidden, intermediate]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWeights:
    """One layer. The post norms, of Gemma alone, stand before the residual sum."""

    attention_norm: Tensor  # [hidden] float32, as all norms
    attention: AttentionWeights
    post_attention_norm: Tensor | None
    mlp_norm: Tensor
    feed_forward: FeedForwardWeights
    post_mlp_norm: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderWeights:
    """All weights. `output` is `embedding` itself where the two are tied."""

    embedding: Tensor  # [vocabulary, hidden]
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor  # [hidden] float32
    output: Tensor  # [vocabulary, hidden]


def load_weights(source: WeightSource, *, dtype: torch.dtype, device: torch.device) -> DecoderWeights:
    """Read all weights, one tensor at a time, into their place.

    Raises:
        CorruptModel: a tensor is missing or its shape contradicts the configuration; the message names it.
    """
    return _Loader(source, dtype, device).decoder()


class _Loader:
    __slots__ = ("_config", "_device", "_dtype", "_names", "_source")

    def __init__(self, source: WeightSource, dtype: torch.dtype, device: torch.device) -> None:
        self._source = source
        self._config = source.config
        self._names = source.names()
        self._dtype = dtype
        self._device = device

    def decoder(self) -> DecoderWeights:
        config = self._config
        table = (config.vocabulary, config.hidden)
        embedding = self._matrix(("embedding.weight",), (table,))
        output = embedding if config.tied_embeddings else self._matrix(("output.weight",), (table,))
        return DecoderWeights(
            embedding=embedding,
            layers=tuple(self._layer(f"layers.{index}") for index in range(len(config.layers))),
            final_norm=self._norm("final_norm.weight", config.hidden),
            output=output,
        )

    def _layer(self, name: str) -> LayerWeights:
        hidden = self._config.hidden
        return LayerWeights(
            attention_norm=self._norm(f"{name}.attention_norm.weight", hidden),
            attention=self._attention(name),
            post_attention_norm=self._norm_if_there(f"{name}.post_attention_norm.weight", hidden),
            mlp_norm=self._norm(f"{name}.mlp_norm.weight", hidden),
            feed_forward=self._feed_forward(name),
            post_mlp_norm=self._norm_if_there(f"{name}.post_mlp_norm.weight", hidden),
        )

    def _attention(self, name: str) -> AttentionWeights:
        config = self._config
        parts = [f"{name}.{part}" for part in ("query", "key", "value")]
        widths = (config.query_width, config.kv_width, config.kv_width)
        output_bias = f"{name}.attention_output.bias"
        return AttentionWeights(
            query_key_value=self._matrix(
                [f"{part}.weight" for part in parts], [(width, config.hidden) for width in widths]
            ),
            query_key_value_bias=self._matrix(
                [f"{part}.bias" for part in parts], [(width,) for width in widths]
            )
            if config.qkv_bias
            else None,
            query_norm=self._norm(f"{name}.query_norm.weight", config.head_dim) if config.qk_norm else None,
            key_norm=self._norm(f"{name}.key_norm.weight", config.head_dim) if config.qk_norm else None,
            output=self._matrix((f"{name}.attention_output.weight",), ((config.hidden, config.query_width),)),
            output_bias=self._matrix((output_bias,), ((config.hidden,),))
            if output_bias in self._names
            else None,
        )

    def _feed_forward(self, name: str) -> FeedForwardWeights:
        hidden, intermediate = self._config.hidden, self._config.intermediate
        return FeedForwardWeights(
            gate_up=self._matrix(
                (f"{name}.gate.weight", f"{name}.up.weight"), ((intermediate, hidden), (intermediate, hidden))
            ),
            down=self._matrix((f"{name}.down.weight",), ((hidden, intermediate),)),
        )

    def _matrix(self, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> Tensor:
        """Tensors under `names`, one below the other, in the compute type."""
        if len(names) == 1:
            return self._tensor(names[0], shapes[0]).to(self._dtype).contiguous()
        rows = sum(shape[0] for shape in shapes)
        out = torch.empty((rows, *shapes[0][1:]), dtype=self._dtype, device=self._device)
        start = 0
        for name, shape in zip(names, shapes, strict=True):
            out[start : start + shape[0]] = self._tensor(name, shape)
            start += shape[0]
        return out

    def _norm(self, name: str, width: int) -> Tensor:
        return self._tensor(name, (width,)).to(torch.float32)

    def _norm_if_there(self, name: str, width: int) -> Tensor | None:
        return self._norm(name, width) if name in self._names else None

    def _tensor(self, name: str, shape: tuple[int, ...]) -> Tensor:
        tensor = self._source.tensor(name, self._device)
        if tuple(tensor.shape) != shape:
            raise CorruptModel(
                f"tensor {name!r} has shape {list(tensor.shape)}, the configuration says {list(shape)}"
            )
        return tensor
