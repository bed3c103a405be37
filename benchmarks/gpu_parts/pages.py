"""Paged contexts with random keys and values, and dense attention over them in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from gpu_parts.bench import Bench
from sgrt_kernels.configurations import attention_config, tree_rows_per_item
from sgrt_kernels.layout import PagedLayer, PageShape, exact_layer, sealed_pages
from sgrt_kernels.ops.tree_attention import TreePlan, plan_tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Heads and pages of an attention case."""

    heads: int
    kv_heads: int
    head_dim: int
    page: int = 32
    dtype: torch.dtype = torch.bfloat16
    sealed: torch.dtype | None = None
    window: int | None = None
    soft_cap: float | None = None

    @property
    def scale(self) -> float:
        """The usual one."""
        return float(self.head_dim**-0.5)

    def __str__(self) -> str:
        pages = str(self.sealed or self.dtype).removeprefix("torch.")
        extras = f" window {self.window}" if self.window else f" cap {self.soft_cap}" if self.soft_cap else ""
        return f"{self.heads}/{self.kv_heads} x {self.head_dim} page {self.page} {pages}{extras}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """Sequences over shuffled pages. Full pages are sealed where the shape says so, and stay exact beside that."""

    shape: Shape
    layer: PagedLayer
    lengths: Tensor  # [sequences] int32
    page_table: Tensor  # exact and sealed pages have the same numbers here
    chunks: tuple[int, ...]  # rows of each sequence
    starts: Tensor  # of the chunks' rows, [sequences + 1] int32
    own_pages: Tensor  # exact pages of the chunks
    query: Tensor

    def first(self) -> Contexts:
        """The first sequence alone, over the same pages."""
        rows = self.chunks[0]
        return replace(
            self,
            lengths=self.lengths[:1],
            page_table=self.page_table[:1],
            chunks=(rows,),
            starts=self.starts[:2],
            own_pages=self.own_pages[:1],
            query=self.query[:rows],
        )

    def forked(self, columns: int) -> Contexts:
        """The same sequences with the first pages of the first one in front of all."""
        table = self.page_table.clone()
        table[:, :columns] = table[0, :columns]
        return self.over(table)

    def over(self, table: Tensor) -> Contexts:
        """The same sequences over other pages."""
        own = _own_pages(table, self.lengths.tolist(), list(self.chunks), self.shape.page)
        return replace(self, page_table=table, own_pages=own)

    def tree(self) -> TreePlan:
        """What the sequences, of one row each, share."""
        shape = self.shape
        group = shape.heads // shape.kv_heads
        config = attention_config(
            self.query.device,
            head_dim=shape.head_dim,
            group=group,
            page=shape.page,
            dtype=shape.sealed or shape.dtype,
        )
        planned = plan_tree(
            self.page_table.tolist(),
            [(length - 1) // shape.page for length in self.lengths.tolist()],
            page_tokens=shape.page,
            rows_per_item=tree_rows_per_item(config, group),
        )
        return TreePlan.of(planned, self.query.device)

    def attend_tree(self, bench: Bench, tree: TreePlan) -> Tensor:
        """The Triton kernels' result over a tree. No work on the host."""
        result: Tensor = bench.kernels("tree_attention").tree_attention(
            self.query,
            self.layer,
            tree,
            self.lengths,
            self.page_table,
            self.own_pages,
            scale=self.shape.scale,
            soft_cap=self.shape.soft_cap,
        )
        return result

    def attend(self, bench: Bench, *, num_single: int = 0, is_batch_invariant: bool = False) -> Tensor:
        """The Triton kernels' result. No work on the host: it may be captured in a graph."""
        options: dict[str, float | None] = {
            "scale": self.shape.scale,
            "window": self.shape.window,
            "soft_cap": self.shape.soft_cap,
            "num_single": num_single,
            "is_batch_invariant": is_batch_invariant,
        }
        chunks = (self.starts, self.lengths, self.page_table)
        if self.layer.sealed is None:
            result: Tensor = bench.kernels("paged_attention").paged_attention(
                self.query, self.layer, *chunks, **options
            )
        else:
            result = bench.kernels("sealed_attention").sealed_attention(
                self.query, self.layer, self.layer.sealed, *chunks, self.own_pages, **options
            )
        return result

    def expected(self) -> Tensor:
        """Dense attention in float64, by the rule of sealed pages where there are any."""
        rows, begin = [], 0
        for index, chunk in enumerate(self.chunks):
            query = self.query[begin : begin + chunk].double()
            rows.append(self._dense(query, index))
            begin += chunk
        return torch.cat(rows)

    def _dense(self, query: Tensor, index: int) -> Tensor:
        shape, length = self.shape, int(self.lengths[index])
        ids = self.page_table[index, : -(-length // shape.page)].long()
        group = shape.heads // shape.kv_heads
        position = torch.arange(length - len(query), length, device=query.device)[:, None]
        token = torch.arange(length, device=query.device)[None]
        visible = token <= position
        if shape.window is not None:
            visible &= token > position - shape.window

        def dense(pages: Tensor) -> Tensor:
            tokens = pages.flatten(0, 1)[:length].double()
            return tokens.repeat_interleave(group, 1).permute(1, 0, 2)  # [heads, tokens, head_dim]

        sources = [(dense(self.layer.keys[ids]), dense(self.layer.values[ids]), visible)]
        if self.layer.sealed is not None:
            is_own = token // shape.page == position // shape.page
            earlier = (
                dense(self.layer.sealed.dequantized_keys(ids)),
                dense(self.layer.sealed.dequantized_values(ids)),
            )
            sources = [(*sources[0][:2], visible & is_own), (*earlier, visible & ~is_own)]
        scores = []
        for keys, _, seen in sources:
            products = query.permute(1, 0, 2) @ keys.transpose(1, 2) * shape.scale
            if shape.soft_cap is not None:
                products = shape.soft_cap * torch.tanh(products / shape.soft_cap)
            scores.append(products.masked_fill(~seen, float("-inf")))
        weights = torch.cat(scores, -1).softmax(-1)
        values = torch.cat([values for _, values, _ in sources], 1)
        return (weights @ values).permute(1, 0, 2)


def make_contexts(
    bench: Bench, shape: Shape, lengths: list[int], chunks: list[int] | None = None, *, repeats: bool = False
) -> Contexts:
    """Contexts of `lengths` tokens whose last `chunks` (default: one each) are queries.

    With `repeats` all pages hold the same few random ones: enough for timing, and quick to make.
    """
    chunks = chunks or [1] * len(lengths)
    counts = [-(-length // shape.page) for length in lengths]
    pages = sum(counts)
    order = torch.randperm(pages, device=bench.device, generator=bench.generator).to(torch.int32)
    table = torch.zeros(len(lengths), max(counts), dtype=torch.int32, device=bench.device)
    begin = 0
    for index, count in enumerate(counts):
        table[index, :count] = order[begin : begin + count]
        begin += count
    page_shape = PageShape(page_tokens=shape.page, kv_heads=shape.kv_heads, head_dim=shape.head_dim)
    layer = exact_layer(pages, page_shape, dtype=shape.dtype, device=bench.device)
    fresh = min(pages, 64) if repeats else pages
    for stored in (layer.keys, layer.values):
        stored.copy_(bench.normal(fresh, *stored.shape[1:])[torch.arange(pages, device=bench.device) % fresh])
    if shape.sealed is not None:
        sealed = sealed_pages(
            pages, page_shape, dtype=shape.sealed, device=bench.device, transposed_values=True
        )
        layer = PagedLayer(keys=layer.keys, values=layer.values, sealed=sealed)
        every = torch.arange(pages, device=bench.device)
        bench.kernels("page_seal").page_seal(layer, sealed, every, every)
    return Contexts(
        shape=shape,
        layer=layer,
        lengths=torch.tensor(lengths, dtype=torch.int32, device=bench.device),
        page_table=table,
        chunks=tuple(chunks),
        starts=torch.tensor([0, *chunks], device=bench.device).cumsum(0).to(torch.int32),
        own_pages=_own_pages(table, lengths, chunks, shape.page),
        query=bench.normal(sum(chunks), shape.heads, shape.head_dim, dtype=shape.dtype),
    )


def _own_pages(table: Tensor, lengths: list[int], chunks: list[int], page: int) -> Tensor:
    firsts = [(length - chunk) // page for length, chunk in zip(lengths, chunks, strict=True)]
    counts = [(length - 1) // page - first + 1 for length, first in zip(lengths, firsts, strict=True)]
    own = torch.zeros(len(firsts), max(counts), dtype=torch.int32, device=table.device)
    for index, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        own[index, :count] = table[index, first : first + count]
    return own
