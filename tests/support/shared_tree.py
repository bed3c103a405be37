"""A small tree of shared prefixes over shuffled pages."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer, PageShape, exact_layer
from sgrt_kernels.ops.tree_attention import TreeRun


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTree:
    """Runs, the layer they lie in, and a query row for each leaf."""

    runs: list[TreeRun]
    layer: PagedLayer
    query: Tensor

    def expected(self, *, soft_cap: float | None = None) -> Tensor:
        """Dense attention of each row over the runs that name it, in float64; zeros for a row without tokens."""
        out = torch.zeros(self.query.shape, dtype=torch.float64)
        group = self.query.shape[1] // self.layer.keys.shape[2]
        for row in range(len(self.query)):
            tokens = [self._tokens(run) for run in self.runs if run.num_tokens and row in run.rows]
            if not tokens:
                continue
            keys, values = (
                torch.cat([pair[i] for pair in tokens]).repeat_interleave(group, 1) for i in (0, 1)
            )
            scores = torch.einsum("hd,nhd->hn", self.query[row].double(), keys) * self.query.shape[-1] ** -0.5
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            out[row] = torch.einsum("hn,nhd->hd", scores.softmax(-1), values)
        return out

    def _tokens(self, run: TreeRun) -> tuple[Tensor, Tensor]:
        page_tokens = self.layer.page_tokens
        at = run.first_offset + torch.arange(run.num_tokens)
        pages = torch.tensor(list(run.pages))[at // page_tokens]
        return self.layer.keys[pages, at % page_tokens].double(), self.layer.values[
            pages, at % page_tokens
        ].double()


def make_tree(
    *,
    heads: int = 6,
    kv_heads: int = 2,
    head_dim: int = 32,
    page_tokens: int = 16,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
) -> SharedTree:
    """Six rows: all share a prompt, two pairs share more, one adds nothing of its own, one has no tokens at all."""
    generator = torch.Generator().manual_seed(seed)
    free = torch.randperm(64, generator=generator).tolist()

    def run(num_tokens: int, rows: list[int], first_offset: int = 0) -> TreeRun:
        pages = [free.pop() for _ in range(-(-(first_offset + num_tokens) // page_tokens))]
        return TreeRun(pages=pages, num_tokens=num_tokens, rows=rows, first_offset=first_offset)

    runs = [
        run(150, [0, 1, 2, 3, 4]),
        run(37, [0, 1], first_offset=150 % page_tokens),
        run(20, [2, 3]),
        run(9, [0]),
        run(1, [1]),
        run(48, [3]),
        run(0, [4]),
    ]
    layer = exact_layer(
        64,
        PageShape(page_tokens=page_tokens, kv_heads=kv_heads, head_dim=head_dim),
        dtype=dtype,
        device="cpu",
    )
    layer.keys.copy_(torch.randn(layer.keys.shape, generator=generator))
    layer.values.copy_(torch.randn(layer.values.shape, generator=generator))
    query = torch.randn(6, heads, head_dim, generator=generator).to(dtype)
    return SharedTree(runs=runs, layer=layer, query=query)
