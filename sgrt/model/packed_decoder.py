"""The CPU kernels' numbers in plain torch, bit for bit: packed weights, int8 activations, layer by layer.

The oracle of the native decoder, and what runs where there is no compiler. Two things are computed in torch's own order
and differ in the last bit: products with float weights, and attention over sealed pages.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt.model.blocks import attend
from sgrt.model.config import ModelConfig, Rope
from sgrt.model.native_weights import PackedSource
from sgrt_kernels.ops.kv_write import rope_kv_write
from sgrt_kernels.ops.linear import linear
from sgrt_kernels.ops.packed_linear import packed_linear
from sgrt_kernels.ops.packed_linear.packed_weight import PackedWeight, take_apart
from sgrt_kernels.twin.attention import paged_attention
from sgrt_kernels.twin.functions import gated, rms_norm, rope_table, soft_capped

_FLOAT_TYPES = frozenset({"F32", "F16", "BF16"})


class PackedDecoder:
    """A model in the definition of the CPU kernels, behind the same `forward`. Slow; for tests and comparisons."""

    def __init__(self, config: ModelConfig, source: PackedSource) -> None:
        """Take all weights apart. Raises ValueError for a type without a packed product."""
        self._config = config
        self._names = source.names()
        self._matrices = {
            name: _matrix(source, name) for name in self._names if len(_shape(source, name)) == 2
        }
        self._vectors = {name: source.tensor(name).float() for name in self._names - self._matrices.keys()}

    @property
    def config(self) -> ModelConfig:
        """The model's numbers."""
        return self._config

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Write the batch's keys and values into their pages and return logits, [rows, vocabulary] float32."""
        config = self._config
        tables = {
            rope: rope_table(batch.positions, config.head_dim, rope.theta, rope.scaling)
            for rope in dict.fromkeys(layer.rope for layer in config.layers)
        }
        x = self._embedded(batch.token_ids) * config.embedding_scale
        for index in range(len(config.layers)):
            prefix = f"layers.{index}."
            normed = self._normed(prefix + "attention_norm.weight", x)
            x = x + self._post(
                prefix + "post_attention_norm.weight", self._attention(index, normed, batch, tables)
            )
            normed = self._normed(prefix + "mlp_norm.weight", x)
            gate, up = (self._times(prefix + part, normed) for part in ("gate", "up"))
            bent = gated(gate, up, config.activation)
            x = x + self._post(prefix + "post_mlp_norm.weight", self._times(prefix + "down", bent))
        final = self._normed("final_norm.weight", x[batch.logit_rows])
        logits = self._times("embedding" if config.tied_embeddings else "output", final)
        return soft_capped(logits, config.logit_soft_cap)

    def _attention(
        self, index: int, x: Tensor, batch: Batch, tables: Mapping[Rope, tuple[Tensor, Tensor]]
    ) -> Tensor:
        config, layer = self._config, self._config.layers[index]
        prefix = f"layers.{index}."
        query, key, value = (
            self._times(prefix + part, x).view(x.shape[0], -1, config.head_dim)
            for part in ("query", "key", "value")
        )
        if config.qk_norm:
            query = self._normed(prefix + "query_norm.weight", query)
            key = self._normed(prefix + "key_norm.weight", key)
        pages = batch.layers[index]
        query = rope_kv_write(query, key, value, *tables[layer.rope], pages, batch.slots)
        if batch.seals is None:
            attended = paged_attention(
                query * config.query_scale,
                pages,
                batch.query_starts,
                batch.context_lengths,
                batch.page_table,
                window=layer.window,
                soft_cap=config.attention_soft_cap,
            )
        else:
            attended = attend(query, pages, config, layer, batch)
        return self._times(prefix + "attention_output", attended.reshape(x.shape[0], -1))

    def _times(self, name: str, x: Tensor) -> Tensor:
        weight = self._matrices[f"{name}.weight"]
        bias = self._vectors.get(f"{name}.bias")
        product = packed_linear(x, weight) if isinstance(weight, PackedWeight) else linear(x, weight)
        return product if bias is None else product + bias

    def _normed(self, name: str, x: Tensor) -> Tensor:
        return rms_norm(x, self._vectors[name], self._config.norm_epsilon)

    def _post(self, name: str, x: Tensor) -> Tensor:
        return self._normed(name, x) if name in self._vectors else x

    def _embedded(self, token_ids: Tensor) -> Tensor:
        table = self._matrices["embedding.weight"]
        return (table.rows_of(token_ids) if isinstance(table, PackedWeight) else table[token_ids]).float()


def _shape(source: PackedSource, name: str) -> tuple[int, ...]:
    return source.packed(name).shape


def _matrix(source: PackedSource, name: str) -> PackedWeight | Tensor:
    stored = source.packed(name)
    if stored.type_name in _FLOAT_TYPES:
        return source.tensor(name).float()
    return take_apart(stored.type_name, stored.blocks)
