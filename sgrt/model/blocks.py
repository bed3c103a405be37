"""The blocks that the families are put together from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt.model.config import LayerConfig, ModelConfig, Rope
from sgrt.model.weights import AttentionWeights, FeedForwardWeights
from sgrt_kernels.activation import Activation
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.gated_activation import gated_activation
from sgrt_kernels.ops.kv_write import rope_kv_write
from sgrt_kernels.ops.linear import linear
from sgrt_kernels.ops.page_seal import page_seal
from sgrt_kernels.ops.paged_attention import paged_attention
from sgrt_kernels.ops.rms_norm import rms_norm
from sgrt_kernels.ops.rope import rope_table
from sgrt_kernels.ops.sealed_attention import sealed_attention
from sgrt_kernels.ops.tree_attention import tree_attention


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One forward pass: the batch and the rotary tables of its positions, which layers share."""

    batch: Batch
    rotations: Mapping[Rope, tuple[Tensor, Tensor]]  # cos and sin, each [tokens, head_dim / 2] float32

    @classmethod
    def of(cls, batch: Batch, config: ModelConfig) -> Step:
        """Prepare the pass of `batch` through a model of `config`."""
        ropes = dict.fromkeys(layer.rope for layer in config.layers)
        return cls(
            batch=batch,
            rotations={
                rope: rope_table(batch.positions, config.head_dim, rope.theta, rope.scaling) for rope in ropes
            },
        )


def normalize(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """Root-mean-square norm over the last dimension."""
    result = rms_norm(x, weight, epsilon)
    assert isinstance(result, Tensor)
    return result


def add_and_normalize(x: Tensor, residual: Tensor, weight: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """`s = x + residual`: returns s normalised, and s."""
    result = rms_norm(x, weight, epsilon, residual)
    assert isinstance(result, tuple)
    return result


def attention(
    x: Tensor,
    weights: AttentionWeights,
    config: ModelConfig,
    layer: LayerConfig,
    pages: PagedLayer,
    step: Step,
) -> Tensor:
    """Self-attention of one layer. x: [tokens, hidden], normalised. Returns [tokens, hidden]."""
    batch, tokens = step.batch, x.shape[0]
    widths = [config.query_width, config.kv_width, config.kv_width]
    is_invariant = batch.is_batch_invariant
    projected = linear(
        x, weights.query_key_value, weights.query_key_value_bias, is_batch_invariant=is_invariant
    )
    query, key, value = (
        part.view(tokens, -1, config.head_dim) for part in torch.split(projected, widths, dim=-1)
    )  # [tokens, heads or kv_heads, head_dim]
    if weights.query_norm is not None:
        query = normalize(query, weights.query_norm, config.norm_epsilon)
    if weights.key_norm is not None:
        key = normalize(key, weights.key_norm, config.norm_epsilon)
    cos, sin = step.rotations[layer.rope]
    query = rope_kv_write(query, key, value, cos, sin, pages, batch.slots)
    attended = attend(query, pages, config, layer, batch)
    attended = attended.reshape(tokens, config.query_width)
    return linear(attended, weights.output, weights.output_bias, is_batch_invariant=is_invariant)


def attend(query: Tensor, pages: PagedLayer, config: ModelConfig, layer: LayerConfig, batch: Batch) -> Tensor:
    """Seal what the step's keys and values, written by now, have filled, and attend.

    query: [tokens, heads, head_dim], rotated. Returns the query's shape.
    """
    if batch.seals is not None:
        page_seal(pages, batch.seals.sources, batch.seals.targets, batch.seals.count)
    if batch.tree is None or layer.window is not None:
        return _attend_flat(query, pages, config, layer, batch)
    singles = batch.num_single
    seals = batch.seals
    shared = tree_attention(
        query[:singles],
        pages,
        batch.tree,
        batch.context_lengths[:singles],
        batch.page_table[:singles],
        None if seals is None else seals.own_pages[:singles],
        scale=config.query_scale,
        soft_cap=config.attention_soft_cap,
    )
    if singles == batch.num_sequences:
        return shared
    chunks = batch.sequences(singles, batch.num_sequences)
    return torch.cat([shared, _attend_flat(query[singles:], pages, config, layer, chunks)])


def _attend_flat(
    query: Tensor, pages: PagedLayer, config: ModelConfig, layer: LayerConfig, batch: Batch
) -> Tensor:
    """Every sequence reads its own context, whatever others read."""
    scale, window, soft_cap = config.query_scale, layer.window, config.attention_soft_cap
    chunks = (batch.query_starts, batch.context_lengths, batch.page_table)
    num_single, is_invariant = batch.num_single, batch.is_batch_invariant
    if batch.seals is None:
        return paged_attention(
            query,
            pages,
            *chunks,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            num_single=num_single,
            is_batch_invariant=is_invariant,
        )
    return sealed_attention(
        query,
        pages,
        *chunks,
        batch.seals.own_pages,
        scale=scale,
        window=window,
        soft_cap=soft_cap,
        num_single=num_single,
        is_batch_invariant=is_invariant,
    )


def feed_forward(x: Tensor, weights: FeedForwardWeights, activation: Activation, batch: Batch) -> Tensor:
    """The gated feed-forward block. x: [tokens, hidden], normalised. Returns [tokens, hidden]."""
    is_invariant = batch.is_batch_invariant
    gate_up = linear(x, weights.gate_up, is_batch_invariant=is_invariant)
    return linear(gated_activation(gate_up, activation), weights.down, is_batch_invariant=is_invariant)
