"""Paged attention by the CPU kernels in C++."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.native.structures import PAGE_TYPES, AttentionStruct
from sgrt_kernels.native.weights import ThreadTeam


def paged_attention(
    team: ThreadTeam,
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
    """Causal attention of each sequence's last tokens over its whole context; see the op.

    Float32 queries, float32, bfloat16 or int16 pages, head_dim a multiple of 32; all tensors contiguous.
    """
    out = torch.empty_like(query)
    call = attention_call(
        query,
        layer,
        query_starts,
        context_lengths,
        page_table,
        out,
        scale=scale,
        window=window,
        soft_cap=soft_cap,
    )
    if not team.library.sgrt_paged_attention(team.handle, ctypes.byref(call)):
        raise MemoryError(f"no memory for the attention of {query.shape[0]} tokens")
    return out


def attention_call(
    query: Tensor,
    layer: PagedLayer,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    out: Tensor,
    *,
    scale: float,
    window: int | None,
    soft_cap: float | None,
) -> AttentionStruct:
    """The call as the kernels read it; the tensors must outlive it."""
    tokens, heads, head_dim = query.shape
    return AttentionStruct(
        query=query.data_ptr(),
        keys=layer.keys.data_ptr(),
        values=layer.values.data_ptr(),
        query_starts=query_starts.data_ptr(),
        context_lengths=context_lengths.data_ptr(),
        page_table=page_table.data_ptr(),
        out=out.data_ptr(),
        tokens=tokens,
        sequences=context_lengths.shape[0],
        max_pages=page_table.shape[1],
        page_tokens=layer.page_tokens,
        page_type=PAGE_TYPES[layer.keys.dtype],
        heads=heads,
        kv_heads=layer.kv_heads,
        head_dim=head_dim,
        window=window or 0,
        scale=scale,
        soft_cap=soft_cap or 0.0,
    )
