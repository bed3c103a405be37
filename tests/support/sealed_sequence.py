"""One sequence over sealed pages, run in chunks the way an engine does: write, seal what is full, attend."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from unwritten_pages import unwritten_layer

from sgrt_kernels.layout import PagedLayer, PageShape, sealed_pages
from sgrt_kernels.ops.kv_write import kv_write
from sgrt_kernels.ops.page_seal import page_seal
from sgrt_kernels.ops.sealed_attention import sealed_attention


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRun:
    """Queries, keys and values of a sequence, [tokens, heads or kv_heads, head_dim] each."""

    query: Tensor
    keys: Tensor
    values: Tensor


def make_run(
    tokens: int, *, heads: int = 6, kv_heads: int = 2, head_dim: int = 32, seed: int = 0
) -> TokenRun:
    """Random tokens whose keys look like a model's: some channels large, some far from zero."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    spread = torch.exp(normal(kv_heads, head_dim))
    return TokenRun(
        query=normal(tokens, heads, head_dim),
        keys=normal(tokens, kv_heads, head_dim) * spread + 3 * normal(kv_heads, head_dim),
        values=normal(tokens, kv_heads, head_dim),
    )


def paired_layer(
    run: TokenRun,
    *,
    dtype: torch.dtype,
    page_tokens: int,
    exact_dtype: torch.dtype = torch.float32,
    transposed_values: bool = False,
) -> PagedLayer:
    """Exact and sealed pages enough for `run`; page ids are shuffled by `sealed_id` and `exact_id`."""
    tokens, kv_heads, head_dim = run.keys.shape
    pages = -(-tokens // page_tokens) + 2
    shape = PageShape(page_tokens=page_tokens, kv_heads=kv_heads, head_dim=head_dim)
    sealed = sealed_pages(pages, shape, dtype=dtype, device="cpu", transposed_values=transposed_values)
    return unwritten_layer(pages, shape, exact_dtype, sealed)


def sealed_ids(layer: PagedLayer) -> Tensor:
    """Sealed page of each page of the sequence, int32."""
    assert layer.sealed is not None
    return torch.arange(layer.sealed.keys.shape[0], dtype=torch.int32).flip(0)


def exact_ids(layer: PagedLayer) -> Tensor:
    """Exact page of each page of the sequence, int32."""
    return torch.arange(layer.keys.shape[0], dtype=torch.int32).roll(1)


def write_and_seal(run: TokenRun, layer: PagedLayer, start: int, end: int) -> None:
    """Write tokens [start, end) into exact pages and seal the pages they fill."""
    page_tokens = layer.page_tokens
    tokens = torch.arange(start, end)
    pages = exact_ids(layer).long()[tokens // page_tokens]
    slots = pages * page_tokens + tokens % page_tokens
    kv_write(run.keys[start:end], run.values[start:end], layer, slots)
    filled = torch.arange(start // page_tokens, end // page_tokens)
    page_seal(layer, exact_ids(layer).long()[filled], sealed_ids(layer).long()[filled])


def attend(
    run: TokenRun,
    layer: PagedLayer,
    start: int,
    end: int,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Attention of the queries [start, end) as one chunk."""
    first = start // layer.page_tokens
    last = (end - 1) // layer.page_tokens
    return sealed_attention(
        run.query[start:end],
        layer,
        torch.tensor([0, end - start], dtype=torch.int32),
        torch.tensor([end], dtype=torch.int32),
        sealed_ids(layer)[None, : last + 1],
        exact_ids(layer)[None, first : last + 1],
        scale=scale,
        window=window,
        soft_cap=soft_cap,
    )


def run_in_chunks(run: TokenRun, layer: PagedLayer, chunks: list[int], *, scale: float) -> Tensor:
    """Attention of the whole run, chunk by chunk, over a fresh layer."""
    outputs, start = [], 0
    for size in chunks:
        write_and_seal(run, layer, start, start + size)
        outputs.append(attend(run, layer, start, start + size, scale=scale))
        start += size
    return torch.cat(outputs)
