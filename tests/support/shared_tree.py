"""Decoding sequences that share leading pages, over shuffled pages, exact or sealed, and dense attention over them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer, PageShape, exact_layer, sealed_pages
from sgrt_kernels.ops.page_seal import page_seal
from sgrt_kernels.ops.tree_attention import PlannedTree, plan_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTree:
    """A layer, the page tables of its sequences, and a query row for each."""

    layer: PagedLayer
    tables: list[list[int]]
    lengths: list[int]
    query: Tensor

    @property
    def full_pages(self) -> list[int]:
        """Of each row the pages before the one it lies in."""
        return [(length - 1) // self.layer.page_tokens for length in self.lengths]

    @property
    def context_lengths(self) -> Tensor:
        """As the op takes them."""
        return torch.tensor(self.lengths, dtype=torch.int32)

    @property
    def page_table(self) -> Tensor:
        """As the op takes it."""
        width = max(map(len, self.tables))
        return torch.tensor([table + [0] * (width - len(table)) for table in self.tables], dtype=torch.int32)

    @property
    def own_pages(self) -> Tensor | None:
        """The exact page of each row; exact and sealed pages have the same numbers here."""
        if self.layer.sealed is None:
            return None
        own = [[table[full]] for table, full in zip(self.tables, self.full_pages, strict=True)]
        return torch.tensor(own, dtype=torch.int32)

    def plan(self, *, rows_per_item: int = 16, tokens_per_item: int = 512) -> PlannedTree:
        """The tree of all rows."""
        return plan_tree(
            self.tables,
            self.full_pages,
            page_tokens=self.layer.page_tokens,
            rows_per_item=rows_per_item,
            tokens_per_item=tokens_per_item,
        )

    def expected(self, *, soft_cap: float | None = None) -> Tensor:
        """Dense attention of each row over its own context, in float64."""
        out = torch.zeros(self.query.shape, dtype=torch.float64)
        group = self.query.shape[1] // self.layer.keys.shape[2]
        for row, length in enumerate(self.lengths):
            keys, values = (tokens.repeat_interleave(group, 1) for tokens in self._context(row))
            scores = torch.einsum("hd,nhd->hn", self.query[row].double(), keys[:length])
            scores *= self.query.shape[-1] ** -0.5
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            out[row] = torch.einsum("hn,nhd->hd", scores.softmax(-1), values[:length])
        return out

    def _context(self, row: int) -> tuple[Tensor, Tensor]:
        ids, full, sealed = torch.tensor(self.tables[row]), self.full_pages[row], self.layer.sealed
        keys, values = self.layer.keys[ids].double(), self.layer.values[ids].double()
        if sealed is not None:
            keys[:full] = sealed.dequantized_keys(ids[:full]).double()
            values[:full] = sealed.dequantized_values(ids[:full]).double()
        return keys.flatten(0, 1), values.flatten(0, 1)


def make_tree(
    *,
    heads: int = 6,
    kv_heads: int = 2,
    head_dim: int = 32,
    page_tokens: int = 16,
    dtype: torch.dtype = torch.float32,
    sealed: torch.dtype | None = None,
    seed: int = 0,
) -> SharedTree:
    """Six rows: five share a prompt, three of them more, two still more; one leaves early, one shares nothing."""
    generator = torch.Generator().manual_seed(seed)
    free = torch.randperm(48, generator=generator).tolist()

    def pages(count: int) -> list[int]:
        return [free.pop() for _ in range(count)]

    prompt, question, detail = pages(9), pages(2), pages(1)
    tables = [
        prompt + pages(1),
        prompt + question + detail + pages(1),
        prompt + question + pages(3),
        prompt[:4] + pages(1),
        pages(1),
        prompt + question + detail,  # its own page is one that others read whole
    ]
    lengths = [len(table) * page_tokens - (5 * row) % page_tokens for row, table in enumerate(tables)]
    layer = _random_layer(
        PageShape(page_tokens=page_tokens, kv_heads=kv_heads, head_dim=head_dim), dtype, sealed, generator
    )
    query = torch.randn(6, heads, head_dim, generator=generator).to(dtype)
    return SharedTree(layer=layer, tables=tables, lengths=lengths, query=query)


def _random_layer(
    shape: PageShape, dtype: torch.dtype, sealed: torch.dtype | None, generator: torch.Generator
) -> PagedLayer:
    layer = exact_layer(48, shape, dtype=dtype, device="cpu")
    for pages in (layer.keys, layer.values):
        pages.copy_(torch.randn(pages.shape, generator=generator))
    if sealed is None:
        return layer
    codes = sealed_pages(48, shape, dtype=sealed, device="cpu", transposed_values=True)
    layer = PagedLayer(keys=layer.keys, values=layer.values, sealed=codes)
    every = torch.arange(48)
    page_seal(layer, every, every)
    return layer
