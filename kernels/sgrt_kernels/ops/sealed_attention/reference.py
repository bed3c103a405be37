"""Attention over sealed and exact pages in plain torch: tiles of queries against blocks of the context.

Blocks of the context are counted from its start and merged in order by the online softmax (arXiv 2205.14135): first
sealed blocks, then the exact page of each row. A block that a row does not see leaves the row's sums bit for bit as
they were (it adds zero weights and multiplies by one), so a row's result depends on its own context alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer, SealedPages

QUERY_TILE = 8
TOKEN_BLOCK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tiles:
    """Tiles of query rows, each of one sequence; a row past a sequence's end repeats its last row."""

    sequences: Tensor  # [tiles]
    rows: Tensor  # [tiles, QUERY_TILE], into the query
    positions: Tensor  # [tiles, QUERY_TILE], in the sequence
    is_real: Tensor  # [tiles, QUERY_TILE]
    first_own_pages: Tensor  # [tiles], the page in which the sequence's chunk starts


@dataclass(slots=True, kw_only=True)
class _Softmax:
    """Running sums of the online softmax, one row for each (tile, kv head) and (row, head of the group)."""

    top: Tensor
    total: Tensor
    merged: Tensor

    def add(self, scores: Tensor, values: Tensor) -> None:
        """Merge one block. scores: [..., rows, tokens], -inf where unseen; values: [..., tokens, head_dim]."""
        highest = torch.maximum(self.top, scores.amax(dim=-1, keepdim=True))
        anchor = highest.masked_fill(highest == float("-inf"), 0.0)
        weights, shrink = torch.exp(scores - anchor), torch.exp(self.top - anchor)
        self.total = self.total * shrink + weights.sum(dim=-1, keepdim=True)
        self.merged = self.merged * shrink + weights @ values
        self.top = highest


def sealed_attention(
    query: Tensor,
    layer: PagedLayer,
    sealed: SealedPages,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    own_pages: Tensor,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Causal attention in which a query reads its own page exact and earlier pages sealed; see the op."""
    out = torch.empty_like(query)
    page_tokens = layer.page_tokens
    tiles = _tiles(query_starts.to(torch.int64), context_lengths.to(torch.int64), page_tokens)
    count, (_, heads, head_dim) = tiles.sequences.shape[0], query.shape
    if count == 0:
        return out
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    kv_heads = layer.kv_heads
    group = heads // kv_heads
    q = (query[tiles.rows].to(dtype) * scale).view(count, QUERY_TILE, kv_heads, group, head_dim)
    q = q.permute(0, 2, 1, 3, 4).reshape(count, kv_heads, QUERY_TILE * group, head_dim)
    sums = _Softmax(
        top=q.new_full((*q.shape[:3], 1), float("-inf")),
        total=q.new_zeros((*q.shape[:3], 1)),
        merged=torch.zeros_like(q),
    )

    def add(tokens: Tensor, visible: Tensor, keys: Tensor, values: Tensor) -> None:
        # contiguous whatever the batch is: a product's kernel, and so its sums, depend on strides
        keys, values = (x.to(dtype).transpose(1, 2).contiguous() for x in (keys, values))
        scores = q @ keys.transpose(2, 3)  # [tiles, kv_heads, rows, tokens]
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        visible = visible & _in_window(tokens, tiles.positions, window)
        hidden = ~visible.repeat_interleave(group, dim=1)[:, None]
        sums.add(scores.masked_fill(hidden, float("-inf")), values)

    own = tiles.positions // page_tokens  # [tiles, QUERY_TILE]
    pages_per_block = max(1, TOKEN_BLOCK // page_tokens)
    for first in range(0, int(own.max()), pages_per_block):
        pages = torch.arange(first, first + pages_per_block, device=query.device)
        tokens = (pages[:, None] * page_tokens + torch.arange(page_tokens, device=query.device)).flatten()
        ids = page_table[tiles.sequences][:, pages.clamp(max=page_table.shape[1] - 1)].to(torch.int64)
        is_earlier = (tokens // page_tokens) < own[:, :, None]
        keys, values = (
            sealed.dequantized_keys(ids).flatten(1, 2),
            sealed.dequantized_values(ids).flatten(1, 2),
        )
        add(tokens[None], is_earlier, keys, values)
    for step in range(1 + (QUERY_TILE - 2) // page_tokens + 1):  # a tile may reach over page borders
        page = own[:, 0] + step
        column = (page - tiles.first_own_pages).clamp(max=own_pages.shape[1] - 1)
        ids = own_pages[tiles.sequences, column].to(torch.int64)
        tokens = page[:, None] * page_tokens + torch.arange(page_tokens, device=query.device)
        is_written = tokens < context_lengths[tiles.sequences][:, None]
        visible = (own == page[:, None])[:, :, None] & (tokens[:, None] <= tiles.positions[:, :, None])
        # slots not yet written may hold anything, NaN too
        keys, values = (
            stored.masked_fill(~is_written[:, :, None, None], 0.0) for stored in layer.in_pages(ids)
        )
        add(tokens, visible, keys, values)
    result = (sums.merged / sums.total).view(count, kv_heads, QUERY_TILE, group, head_dim)
    result = result.permute(0, 2, 1, 3, 4).reshape(count, QUERY_TILE, heads, head_dim).to(query.dtype)
    out[tiles.rows[tiles.is_real]] = result[tiles.is_real]
    return out


def _tiles(query_starts: Tensor, context_lengths: Tensor, page_tokens: int) -> _Tiles:
    counts = query_starts[1:] - query_starts[:-1]
    starts = context_lengths - counts
    tiles_of = (counts + QUERY_TILE - 1) // QUERY_TILE
    sequences = torch.repeat_interleave(torch.arange(counts.shape[0], device=counts.device), tiles_of)
    first_tile = torch.cumsum(tiles_of, 0) - tiles_of
    tile_in_sequence = torch.arange(sequences.shape[0], device=counts.device) - first_tile[sequences]
    offsets = tile_in_sequence[:, None] * QUERY_TILE + torch.arange(QUERY_TILE, device=counts.device)
    is_real = offsets < counts[sequences][:, None]
    offsets = torch.minimum(offsets, counts[sequences][:, None] - 1)
    return _Tiles(
        sequences=sequences,
        rows=query_starts[:-1][sequences][:, None] + offsets,
        positions=starts[sequences][:, None] + offsets,
        is_real=is_real,
        first_own_pages=(starts // page_tokens)[sequences],
    )


def _in_window(tokens: Tensor, positions: Tensor, window: int | None) -> Tensor:
    """Whether the row's window reaches the token. tokens: [1 or tiles, tokens]; [tiles, QUERY_TILE, tokens]."""
    if window is None:
        return torch.ones((), dtype=torch.bool, device=tokens.device)
    return tokens[:, None] > positions[:, :, None] - window
