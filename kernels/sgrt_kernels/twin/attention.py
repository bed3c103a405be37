"""Attention over exact pages in the kernels' blocks and spans; `native/attention.h` has the definition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.twin.arithmetic import LANES, fused, sum_of_lanes
from sgrt_kernels.twin.functions import BINARY_LOGARITHM_OF_E, power_of_two, soft_capped
from sgrt_kernels.twin.stored_tokens import StoredTokens, stored_tokens

BLOCK_TOKENS = 64
SPAN_TOKENS = 256


@dataclass(slots=True, kw_only=True)
class _Part:
    """The running softmax of rows over a span: the largest score, the sums of weights, the weighted values."""

    top: Tensor  # [rows, kv_heads, group]
    lanes: Tensor  # [rows, kv_heads, group, 16], of every sixteenth token
    out: Tensor  # [rows, kv_heads, group, head_dim]

    @classmethod
    def empty(cls, query: Tensor) -> _Part:
        shape = query.shape[:-1]
        return cls(
            top=query.new_full(shape, float("-inf")),
            lanes=query.new_zeros((*shape, LANES)),
            out=torch.zeros_like(query),
        )


@dataclass(slots=True, kw_only=True)
class _Result:
    """The softmax of rows over the spans so far."""

    top: Tensor  # [rows, kv_heads, group]
    total: Tensor  # [rows, kv_heads, group]
    out: Tensor  # [rows, kv_heads, group, head_dim]

    @classmethod
    def empty(cls, query: Tensor) -> _Result:
        shape = query.shape[:-1]
        return cls(
            top=query.new_full(shape, float("-inf")),
            total=query.new_zeros(shape),
            out=torch.zeros_like(query),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Query rows of one sequence, and the tokens [first, last) that each sees."""

    query: Tensor  # [rows, kv_heads, group, head_dim], scaled
    first: Tensor  # [rows]
    last: Tensor  # [rows]

    def sees(self, start: int, stop: int) -> Tensor:
        """[rows]: whether a row sees a token of [start, stop)."""
        return (self.last > start) & (self.first < stop)


def paged_attention(
    query: Tensor,
    layer: PagedLayer,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    *,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Causal attention of each sequence's last tokens over its context; `query` [tokens, heads, head_dim] is scaled.

    The other arguments are those of the op `paged_attention`.
    """
    out = torch.empty_like(query)
    # Scores are in powers of two.
    query = query * BINARY_LOGARITHM_OF_E
    if soft_cap is not None:
        soft_cap = float(np.float32(soft_cap) * np.float32(BINARY_LOGARITHM_OF_E))
    kv_heads = layer.kv_heads
    starts = query_starts.tolist()
    for sequence, context in enumerate(context_lengths.tolist()):
        chunk = slice(starts[sequence], starts[sequence + 1])
        count = chunk.stop - chunk.start
        if count == 0:
            continue
        last = torch.arange(context - count, context) + 1
        rows = _Rows(
            query=query[chunk].reshape(count, kv_heads, -1, query.shape[-1]),
            first=torch.zeros_like(last) if window is None else (last - window).clamp(min=0),
            last=last,
        )
        tokens = stored_tokens(layer, page_table[sequence], context)
        out[chunk] = _attended(rows, tokens, context, soft_cap).reshape(count, *query.shape[1:])
    return out


def _attended(rows: _Rows, tokens: StoredTokens, context: int, soft_cap: float | None) -> Tensor:
    result = _Result.empty(rows.query)
    for span in range(0, context, SPAN_TOKENS):
        part = _Part.empty(rows.query)
        for start in range(span, min(span + SPAN_TOKENS, context), BLOCK_TOKENS):
            block = slice(start, min(start + BLOCK_TOKENS, context))
            seen = rows.sees(block.start, block.stop).nonzero()[:, 0]
            if len(seen):
                _add_block(part, rows, seen, tokens, block, soft_cap)
        _merge(result, part)
    return result.out / result.total[..., None]


def _add_block(
    part: _Part, rows: _Rows, seen: Tensor, tokens: StoredTokens, block: slice, soft_cap: float | None
) -> None:
    """Take a block of tokens into the rows `seen`."""
    scores = rows.query.new_zeros((len(seen), *rows.query.shape[1:-1], BLOCK_TOKENS))
    scores[..., : block.stop - block.start] = tokens.scores(rows.query[seen], block)
    scores = soft_capped(scores, soft_cap)
    places = torch.arange(block.start, block.start + BLOCK_TOKENS)
    visible = (places >= rows.first[seen, None]) & (places < rows.last[seen, None])
    scores = scores.masked_fill(~visible[:, None, None, :], float("-inf"))
    old = part.top[seen]
    top = torch.maximum(old, scores.amax(dim=-1))
    weights = power_of_two(scores - top[..., None])
    quarters = weights.view(*weights.shape[:-1], -1, LANES).unbind(-2)
    fresh = (quarters[0] + quarters[1]) + (quarters[2] + quarters[3])
    shrink = power_of_two(old - top)
    weights = weights[..., : block.stop - block.start]
    part.out[seen] = tokens.weighted(weights, block, part.out[seen] * shrink[..., None])
    part.top[seen] = top
    part.lanes[seen] = fused(part.lanes[seen], shrink[..., None], fresh)


def _merge(result: _Result, part: _Part) -> None:
    """Merge a span into the result, for the rows that see something of it."""
    total = sum_of_lanes(part.lanes)
    rows = (total != 0.0).nonzero(as_tuple=True)
    old, new = result.top[rows], part.top[rows]
    highest = torch.maximum(old, new)
    keep, gain = power_of_two(old - highest), power_of_two(new - highest)
    result.out[rows] = fused(part.out[rows], gain[:, None], result.out[rows] * keep[:, None])
    result.total[rows] = result.total[rows] * keep + total[rows] * gain
    result.top[rows] = highest
