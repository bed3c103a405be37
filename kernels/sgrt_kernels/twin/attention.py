"""Attention over exact pages in the kernels' blocks and spans; `native/attention.h` has the definition."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.twin.arithmetic import LANES, fused, sum_of_lanes
from sgrt_kernels.twin.functions import exponential, soft_capped

BLOCK_TOKENS = 64
SPAN_TOKENS = 256


@dataclass(slots=True, kw_only=True)
class _Part:
    """The running softmax of rows over some tokens: the largest score, the sum of weights, the weighted values."""

    top: Tensor  # [rows, kv_heads, group]
    total: Tensor  # [rows, kv_heads, group]
    out: Tensor  # [rows, kv_heads, group, head_dim]

    @classmethod
    def empty(cls, query: Tensor) -> _Part:
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
    kv_heads = layer.keys.shape[2]
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
        keys, values = _gathered(layer, page_table[sequence], context)
        out[chunk] = _attended(rows, keys, values, soft_cap).reshape(count, *query.shape[1:])
    return out


def _gathered(layer: PagedLayer, pages: Tensor, context: int) -> tuple[Tensor, Tensor]:
    """Keys and values of a sequence, [context, kv_heads, head_dim] float32."""
    tokens = torch.arange(context)
    slots = (
        pages.to(torch.int64)[tokens // layer.page_tokens] * layer.page_tokens + tokens % layer.page_tokens
    )
    keys, values = (
        pages.reshape(-1, *pages.shape[2:])[slots].float() for pages in (layer.keys, layer.values)
    )
    return keys, values


def _attended(rows: _Rows, keys: Tensor, values: Tensor, soft_cap: float | None) -> Tensor:
    result = _Part.empty(rows.query)
    for span in range(0, keys.shape[0], SPAN_TOKENS):
        part = _Part.empty(rows.query)
        for start in range(span, min(span + SPAN_TOKENS, keys.shape[0]), BLOCK_TOKENS):
            stop = min(start + BLOCK_TOKENS, keys.shape[0])
            seen = rows.sees(start, stop).nonzero()[:, 0]
            if len(seen):
                _add_block(part, rows, seen, start, keys[start:stop], values[start:stop], soft_cap)
        _merge(result, part)
    return result.out / result.total[..., None]


def _add_block(
    part: _Part, rows: _Rows, seen: Tensor, start: int, keys: Tensor, values: Tensor, soft_cap: float | None
) -> None:
    """Take the block of tokens from `start` on into the rows `seen`."""
    count = keys.shape[0]
    scores = soft_capped(_scores(rows.query[seen], keys), soft_cap)  # [seen, kv_heads, group, 64]
    tokens = torch.arange(start, start + BLOCK_TOKENS)
    visible = (tokens >= rows.first[seen, None]) & (tokens < rows.last[seen, None])
    scores = scores.masked_fill(~visible[:, None, None, :], float("-inf"))
    old = part.top[seen]
    top = torch.maximum(old, scores.amax(dim=-1))
    weights = exponential(scores - top[..., None])
    quarters = weights.view(*weights.shape[:-1], -1, LANES).unbind(-2)
    fresh = sum_of_lanes((quarters[0] + quarters[1]) + (quarters[2] + quarters[3]))
    shrink = exponential(old - top)
    out = part.out[seen] * shrink[..., None]
    for token in range(count):
        out = fused(weights[..., token, None], values[token, None, :, None, :], out)
    part.top[seen] = top
    part.total[seen] = part.total[seen] * shrink + fresh
    part.out[seen] = out


def _scores(query: Tensor, keys: Tensor) -> Tensor:
    """[rows, kv_heads, group, 64]: channels added in rising order; zero behind the last token."""
    lanes = keys.new_zeros((BLOCK_TOKENS, *keys.shape[1:]))
    lanes[: keys.shape[0]] = keys
    by_channel = lanes.permute(2, 1, 0)  # [head_dim, kv_heads, 64]
    scores = query.new_zeros((*query.shape[:-1], BLOCK_TOKENS))
    for channel in range(query.shape[-1]):
        scores = fused(query[..., channel, None], by_channel[channel][None, :, None, :], scores)
    return scores


def _merge(result: _Part, part: _Part) -> None:
    """Merge a span into the result, for the rows that see something of it."""
    rows = (part.total != 0.0).nonzero(as_tuple=True)
    old, new = result.top[rows], part.top[rows]
    highest = torch.maximum(old, new)
    keep, gain = exponential(old - highest), exponential(new - highest)
    result.out[rows] = fused(part.out[rows], gain[:, None], result.out[rows] * keep[:, None])
    result.total[rows] = result.total[rows] * keep + part.total[rows] * gain
    result.top[rows] = highest
