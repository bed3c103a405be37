"""Ragged batches over shuffled pages, made from a seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from unwritten_pages import unwritten_layer

from sgrt_kernels.layout import PagedLayer, PageShape
from sgrt_kernels.ops.kv_write import kv_write


@dataclass(frozen=True, slots=True, kw_only=True)
class Ragged:
    """Sequences of `contexts` tokens whose last `chunks` are queries, with pages handed out in random order."""

    query: Tensor  # [tokens, heads, head_dim]
    layer: PagedLayer
    query_starts: Tensor
    context_lengths: Tensor
    page_table: Tensor
    slots: Tensor  # of every token of every sequence, in order
    keys: Tensor  # [all tokens, kv_heads, head_dim], as stored
    values: Tensor


def make_ragged(
    *,
    contexts: list[int],
    chunks: list[int],
    heads: int = 6,
    kv_heads: int = 2,
    head_dim: int = 32,
    page_tokens: int = 16,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> Ragged:
    """A ragged batch; page slots without a token hold NaN."""
    generator = torch.Generator().manual_seed(seed)
    pages_of = [-(-context // page_tokens) for context in contexts]
    shuffled = torch.randperm(sum(pages_of) + 3, generator=generator).tolist()
    page_table = torch.zeros(len(contexts), max([*pages_of, 1]), dtype=torch.int32)
    slots: list[int] = []
    for row, (context, pages) in enumerate(zip(contexts, pages_of, strict=True)):
        mine = [shuffled.pop() for _ in range(pages)]
        page_table[row, :pages] = torch.tensor(mine, dtype=torch.int32)
        slots += [mine[t // page_tokens] * page_tokens + t % page_tokens for t in range(context)]
    shape = PageShape(page_tokens=page_tokens, kv_heads=kv_heads, head_dim=head_dim)
    layer = unwritten_layer(sum(pages_of) + 3, shape, dtype)
    slot_tensor = torch.tensor(slots, dtype=torch.int64)
    keys, values = (torch.randn(len(slots), kv_heads, head_dim, generator=generator) for _ in range(2))
    kv_write(keys, values, layer, slot_tensor)
    keys, values = layer.at_slots(slot_tensor)
    starts = torch.cumsum(torch.tensor([0, *chunks]), 0)
    return Ragged(
        query=torch.randn(sum(chunks), heads, head_dim, generator=generator),
        layer=layer,
        query_starts=starts.to(torch.int32),
        context_lengths=torch.tensor(contexts, dtype=torch.int32),
        page_table=page_table,
        slots=slot_tensor,
        keys=keys,
        values=values,
    )
