"""Paged attention in plain torch: tiles of queries against blocks of the context, merged in order.

Every product has the same shape whatever the batch is: a tile holds QUERY_TILE rows of one sequence (padded), a block
holds TOKEN_BLOCK tokens counted from the sequence's start. The merge is the online softmax of arXiv 2205.14135.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer

QUERY_TILE = 8
TOKEN_BLOCK = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tiles:
    """Tiles of query rows, each of one sequence; a row past a sequence's end repeats its last row."""

    sequences: Tensor  # [tiles]
    rows: Tensor  # [tiles, QUERY_TILE], into the query
    positions: Tensor  # [tiles, QUERY_TILE], in the sequence
    is_real: Tensor  # [tiles, QUERY_TILE]


def paged_attention(
    query: Tensor,
    layer: PagedLayer,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Causal attention of each sequence's last tokens over its whole context; see the op."""
    out = torch.empty_like(query)
    tiles = _tiles(query_starts.to(torch.int64), context_lengths.to(torch.int64))
    if tiles.sequences.numel() == 0:
        return out
    kv_heads = layer.kv_heads
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    count, (_, heads, head_dim) = tiles.sequences.shape[0], query.shape
    group = heads // kv_heads
    # [tiles * kv_heads, QUERY_TILE * group, head_dim]
    q = (query[tiles.rows].to(dtype) * scale).view(count, QUERY_TILE, kv_heads, group, head_dim)
    q = q.permute(0, 2, 1, 3, 4).reshape(count * kv_heads, QUERY_TILE * group, head_dim)
    top = q.new_full((*q.shape[:2], 1), float("-inf"))
    total, merged = torch.zeros_like(top), torch.zeros_like(q)
    last = int(tiles.positions.max())
    for start in range(0, last + 1, TOKEN_BLOCK):
        tokens = torch.arange(start, start + TOKEN_BLOCK, device=query.device)
        keys, values = _gathered(layer, tokens, tiles, context_lengths, page_table, dtype)
        scores = q @ keys.transpose(1, 2)
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        visible = _visible(tokens, tiles.positions, window)[:, None, :, None, :]
        scores = scores.view(count, kv_heads, QUERY_TILE, group, TOKEN_BLOCK)
        scores = scores.masked_fill(~visible, float("-inf")).view(*q.shape[:2], TOKEN_BLOCK)
        highest = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        anchor = highest.masked_fill(highest == float("-inf"), 0.0)
        weights, shrink = torch.exp(scores - anchor), torch.exp(top - anchor)
        total = total * shrink + weights.sum(dim=-1, keepdim=True)
        merged = merged * shrink + weights @ values
        top = highest
    result = (merged / total).view(count, kv_heads, QUERY_TILE, group, head_dim).permute(0, 2, 1, 3, 4)
    result = result.reshape(count, QUERY_TILE, heads, head_dim).to(query.dtype)
    out[tiles.rows[tiles.is_real]] = result[tiles.is_real]
    return out


def _tiles(query_starts: Tensor, context_lengths: Tensor) -> _Tiles:
    counts = query_starts[1:] - query_starts[:-1]
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
        positions=(context_lengths - counts)[sequences][:, None] + offsets,
        is_real=is_real,
    )


def _gathered(
    layer: PagedLayer,
    tokens: Tensor,
    tiles: _Tiles,
    context_lengths: Tensor,
    page_table: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Keys and values of one block for every tile, [tiles * kv_heads, TOKEN_BLOCK, head_dim] each.

    Tokens past a sequence's end read as zero: what lies in unwritten slots may be anything, NaN too.
    """
    pages = torch.clamp(tokens // layer.page_tokens, max=page_table.shape[1] - 1)
    slots = page_table[tiles.sequences][:, pages].to(torch.int64) * layer.page_tokens
    slots = slots + tokens % layer.page_tokens
    is_written = tokens < context_lengths[tiles.sequences][:, None]
    slots = slots.masked_fill(~is_written, 0)

    def block(stored: Tensor) -> Tensor:
        picked = stored.to(dtype).masked_fill(~is_written[:, :, None, None], 0.0)
        return picked.transpose(1, 2).reshape(-1, tokens.shape[0], layer.head_dim)

    keys, values = layer.at_slots(slots)
    return block(keys), block(values)


def _visible(tokens: Tensor, positions: Tensor, window: int | None) -> Tensor:
    """[tiles, QUERY_TILE, TOKEN_BLOCK]: whether the row sees the token."""
    visible = tokens <= positions[:, :, None]
    if window is not None:
        visible &= tokens > positions[:, :, None] - window
    return visible
