"""Launching the attention kernels over a ragged batch: rows on their own are decoded, chunks are extended.

Both kinds may come in one batch, single rows first. A tile of a chunk that held a single row would compute on padding,
and one program would read a whole context; decode spreads it over many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, Required, TypedDict

import torch
import triton
from torch import Tensor

from sgrt_kernels.attention_tiles import merge_splits
from sgrt_kernels.configurations import AttentionConfig, attention_config, split_count


class TritonKernel(Protocol):
    """A kernel to be launched on a grid."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., object]:
        """What launches it there."""
        ...


_MERGE: TritonKernel = merge_splits


class AttentionOptions(TypedDict, total=False):
    """What the ops over pages are told beside the chunks: see paged_attention. `config` defaults to the tuned one."""

    scale: Required[float]
    window: int | None
    soft_cap: float | None
    num_single: int
    is_batch_invariant: bool
    config: AttentionConfig | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionPages:
    """Pages to attend over and the kernels that read them."""

    decode: TritonKernel
    extend: TritonKernel
    tensors: tuple[Tensor, ...]  # what the kernels take between query and lengths, page tables last
    strides: tuple[int, ...]
    constants: dict[str, object]  # what the kernels are compiled with beside the shapes
    is_in_pages: bool  # whether a block of the extend kernel must not cross a page's border
    # Tiles of rows are read as this. A tile that is loaded as it is used goes to the tensor cores from shared memory;
    # one that is converted stays in registers, 64 a thread for heads of 256 channels.
    tile_dtype: torch.dtype | None
    dtype: torch.dtype  # of what the pages hold
    kv_heads: int
    page_tokens: int
    max_context: int  # tokens that the page table has room for

    def config(self, query: Tensor) -> AttentionConfig:
        """The tuned configuration for `query` [tokens, heads, head_dim]."""
        _, heads, head_dim = query.shape
        return attention_config(
            query.device,
            head_dim=head_dim,
            group=heads // self.kv_heads,
            page=self.page_tokens,
            dtype=self.dtype,
        )

    def shape_constants(self, query: Tensor, *, soft_cap: float | None) -> dict[str, object]:
        """What all attention kernels are compiled with."""
        _, heads, head_dim = query.shape
        return {
            "GROUP": heads // self.kv_heads,
            "HEAD_DIM": head_dim,
            "BLOCK_D": triton.next_power_of_2(head_dim),
            "PAGE": self.page_tokens,
            "SOFT_CAP": soft_cap or 0.0,
            **self.constants,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Partials:
    """Splits of decoded rows that are still to be merged: see merge_splits."""

    values: Tensor  # [rows, heads, splits, head_dim]
    lse: Tensor  # [rows, heads, splits]
    splits: int


def attend(
    query: Tensor,
    query_starts: Tensor,
    context_lengths: Tensor,
    pages: AttentionPages,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    num_single: int = 0,
    is_batch_invariant: bool = False,
    config: AttentionConfig | None = None,
) -> Tensor:
    """Attention of a ragged batch over `pages`. Returns [tokens, heads, head_dim] in the query's dtype."""
    query = query.contiguous()
    out = torch.empty_like(query)
    tokens, sequences = query.shape[0], context_lengths.shape[0]
    if tokens == 0 or sequences == 0:
        return out
    config = config or pages.config(query)
    if is_batch_invariant:
        config = replace(config, is_batch_invariant=True)
    singles = sequences if tokens == sequences else num_single
    if singles:
        partials = decode_splits(
            query[:singles],
            context_lengths,
            pages,
            config,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            out=out[:singles],
        )
        if partials is not None:
            _merge(partials, out[:singles])
    if singles < sequences:
        group = query.shape[1] // pages.kv_heads
        in_page = min(config.extend_tokens, pages.page_tokens)
        tiles = triton.cdiv((tokens - singles) * group, config.extend_rows)
        pages.extend[(tiles, pages.kv_heads, sequences - singles)](
            query.to(pages.tile_dtype or query.dtype),
            *pages.tensors,
            query_starts,
            context_lengths,
            out,
            scale,
            singles,
            query.stride(0),
            *pages.strides,
            **pages.shape_constants(query, soft_cap=soft_cap),
            WINDOW=window or 0,
            BLOCK_M=config.extend_rows,
            BLOCK_N=in_page if pages.is_in_pages else config.extend_tokens,
            STAGES=config.extend_stages,
            num_warps=config.extend_warps,
        )
    return out


def decode_splits(
    rows: Tensor,
    context_lengths: Tensor,
    pages: AttentionPages,
    config: AttentionConfig,
    *,
    scale: float,
    out: Tensor,
    window: int | None = None,
    soft_cap: float | None = None,
    first_pages: Tensor | None = None,
) -> Partials | None:
    """Decode `rows` [rows, heads, head_dim], one for each sequence, into partials; None if they went into `out` whole.

    With `first_pages` [rows] int32 a row reads its context from that page on, and the result is always partial.
    """
    count, heads, head_dim = rows.shape
    splits = split_count(config, count * pages.kv_heads, pages.max_context)
    is_partial = splits > 1 or first_pages is not None
    values, lse = out, out
    if is_partial:
        values = torch.empty((count, heads, splits, head_dim), dtype=torch.float32, device=out.device)
        lse = torch.empty((count, heads, splits), dtype=torch.float32, device=out.device)
    pages.decode[(count, pages.kv_heads, splits)](
        rows,
        *pages.tensors,
        context_lengths,
        context_lengths if first_pages is None else first_pages,
        values,
        lse,
        scale,
        rows.stride(0),
        *pages.strides,
        **pages.shape_constants(rows, soft_cap=soft_cap),
        WINDOW=window or 0,
        BLOCK_H=max(8, triton.next_power_of_2(heads // pages.kv_heads)),
        BLOCK_N=min(config.decode_tokens, pages.page_tokens),
        SLOTS=config.decode_slots,
        SPLITS=splits,
        IS_REST=first_pages is not None,
        STAGES=config.decode_stages,
        num_warps=config.decode_warps,
    )
    return Partials(values=values, lse=lse, splits=splits) if is_partial else None


def _merge(partials: Partials, out: Tensor) -> None:
    rows, heads, head_dim = out.shape
    _MERGE[(rows * heads,)](
        partials.values,
        partials.lse,
        out,
        HEAD_DIM=head_dim,
        BLOCK_D=triton.next_power_of_2(head_dim),
        SPLITS=partials.splits,
        num_warps=1,
    )
