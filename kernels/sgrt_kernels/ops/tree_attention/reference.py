"""Decode over a tree in plain torch: each row's keys and values put together from its items and the rest of its context."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.tree_attention.plan import TreePlan


def tree_attention(
    query: Tensor,
    layer: PagedLayer,
    tree: TreePlan,
    context_lengths: Tensor,
    page_table: Tensor,
    own_pages: Tensor | None = None,
    *,
    scale: float,
    soft_cap: float | None = None,
) -> Tensor:
    """Attention of decoding rows, the leading pages that they share read once; see the op."""
    out = torch.empty_like(query)
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    group = query.shape[1] // layer.keys.shape[2]
    for row in range(len(query)):
        own = None if own_pages is None else int(own_pages[row, 0])
        pages = _shared_pages(tree, row, page_table) + _rest(tree, row, context_lengths, page_table, layer)
        keys, values = (
            tokens.to(dtype).repeat_interleave(group, 1)
            for tokens in _tokens(layer, pages, int(context_lengths[row]), own)
        )
        scores = torch.einsum("hd,nhd->hn", query[row].to(dtype) * scale, keys)
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        out[row] = torch.einsum("hn,nhd->hd", scores.softmax(-1), values).to(query.dtype)
    return out


def _shared_pages(tree: TreePlan, row: int, page_table: Tensor) -> list[int]:
    """What the items give to a row, in the order of its partials."""
    pages: list[int] = []
    for partial in tree.merge_partials[
        int(tree.merge_starts[row]) : int(tree.merge_starts[row + 1])
    ].tolist():
        first, count, _ = tree.items[partial // tree.rows_per_item].tolist()
        pages += page_table[int(tree.rows[partial // tree.rows_per_item, 0]), first : first + count].tolist()
    return pages


def _rest(
    tree: TreePlan, row: int, context_lengths: Tensor, page_table: Tensor, layer: PagedLayer
) -> list[int]:
    last = (int(context_lengths[row]) - 1) // layer.page_tokens
    pages: list[int] = page_table[row, int(tree.first_pages[row]) : last + 1].tolist()
    return pages


def _tokens(layer: PagedLayer, pages: list[int], count: int, own: int | None) -> tuple[Tensor, Tensor]:
    """Keys and values of the first `count` tokens of `pages`, [tokens, kv_heads, head_dim]; the page `own` is exact."""
    ids = torch.tensor(pages, dtype=torch.int64, device=layer.keys.device)
    if layer.sealed is None:
        keys, values = layer.keys[ids], layer.values[ids]
    else:
        assert own is not None, "sealed pages come with the exact pages that rows lie in"
        earlier = ids[:-1]
        keys = torch.cat([layer.sealed.dequantized_keys(earlier), layer.keys[own : own + 1].float()])
        values = torch.cat([layer.sealed.dequantized_values(earlier), layer.values[own : own + 1].float()])
    return keys.flatten(0, 1)[:count], values.flatten(0, 1)[:count]
