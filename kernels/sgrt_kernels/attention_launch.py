"""Launching the attention kernels over a ragged batch: rows on their own are decoded, chunks are extended.

Both kinds may come in one batch, single rows first. A tile of a chunk that held a single row would compute on padding,
and one program would read a whole context; decode spreads it over many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

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


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionKernels:
    """A decode and an extend kernel that take the same pages, and what both are compiled with beside the shapes."""

    decode: TritonKernel
    extend: TritonKernel
    constants: dict[str, object]
    is_in_pages: bool  # whether the extend kernel's blocks must not cross a page's border


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionBatch:
    """A ragged batch over pages: the arguments of `paged_attention` that all attention kernels share."""

    query: Tensor  # [tokens, heads, head_dim], contiguous
    query_starts: Tensor
    context_lengths: Tensor
    kv_heads: int
    page_tokens: int
    max_context: int  # tokens that the page table has room for
    num_single: int  # of the sequences the first so many have one row
    scale: float
    window: int | None
    soft_cap: float | None
    is_batch_invariant: bool = False


def launch(
    batch: AttentionBatch,
    kernels: AttentionKernels,
    pages: tuple[Tensor, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    config: AttentionConfig | None = None,
) -> Tensor:
    """Attention of the batch over `pages`, the kernels' arguments between query and lengths; `dtype` is the pages'.

    `config` defaults to the tuned one. Returns [tokens, heads, head_dim] in the query's dtype.
    """
    query = batch.query
    out = torch.empty_like(query)
    tokens, heads, head_dim = query.shape
    sequences = batch.context_lengths.shape[0]
    if tokens == 0 or sequences == 0:
        return out
    group = heads // batch.kv_heads
    if config is None:
        config = attention_config(
            query.device, head_dim=head_dim, group=group, page=batch.page_tokens, dtype=dtype
        )
    if batch.is_batch_invariant:
        config = replace(config, is_batch_invariant=True)
    constants = {
        "GROUP": group,
        "HEAD_DIM": head_dim,
        "BLOCK_D": triton.next_power_of_2(head_dim),
        "PAGE": batch.page_tokens,
        "WINDOW": batch.window or 0,
        "SOFT_CAP": batch.soft_cap or 0.0,
        **kernels.constants,
    }
    singles = sequences if tokens == sequences else batch.num_single
    if singles:
        _decode(batch, kernels, pages, strides, constants, config, out[:singles])
    if singles < sequences:
        tiles = triton.cdiv((tokens - singles) * group, config.extend_rows)
        in_page = min(config.extend_tokens, batch.page_tokens)
        kernels.extend[(tiles, batch.kv_heads, sequences - singles)](
            query,
            *pages,
            batch.query_starts,
            batch.context_lengths,
            out,
            batch.scale,
            singles,
            *strides,
            **constants,
            BLOCK_M=config.extend_rows,
            BLOCK_N=in_page if kernels.is_in_pages else config.extend_tokens,
            STAGES=config.extend_stages,
            num_warps=config.extend_warps,
        )
    return out


def _decode(
    batch: AttentionBatch,
    kernels: AttentionKernels,
    pages: tuple[Tensor, ...],
    strides: tuple[int, ...],
    constants: dict[str, object],
    config: AttentionConfig,
    out: Tensor,
) -> None:
    rows, heads, head_dim = out.shape
    splits = split_count(config, rows * batch.kv_heads, batch.max_context)
    partial, lse = out, out  # the result itself where there is but one split
    if splits > 1:
        partial = torch.empty((rows, heads, splits, head_dim), dtype=torch.float32, device=out.device)
        lse = torch.empty((rows, heads, splits), dtype=torch.float32, device=out.device)
    kernels.decode[(rows, batch.kv_heads, splits)](
        batch.query,
        *pages,
        batch.context_lengths,
        partial,
        lse,
        batch.scale,
        *strides,
        **constants,
        BLOCK_H=max(8, triton.next_power_of_2(heads // batch.kv_heads)),
        BLOCK_N=min(config.decode_tokens, batch.page_tokens),
        SLOTS=config.decode_slots,
        SPLITS=splits,
        STAGES=config.decode_stages,
        num_warps=config.decode_warps,
    )
    if splits > 1:
        _MERGE[(rows * heads,)](
            partial,
            lse,
            out,
            HEAD_DIM=head_dim,
            BLOCK_D=triton.next_power_of_2(head_dim),
            SPLITS=splits,
            num_warps=1,
        )
