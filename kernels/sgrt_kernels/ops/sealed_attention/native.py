"""Attention over sealed pages by the CPU kernels in C++."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from sgrt_kernels.layout import LayoutError, PagedLayer, PageSeals
from sgrt_kernels.native.sealed import Seals, layers_of
from sgrt_kernels.native.weights import ThreadTeam
from sgrt_kernels.ops.paged_attention.native import attention_call


def sealed_attention(
    team: ThreadTeam,
    query: Tensor,
    layer: PagedLayer,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    own_pages: Tensor,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
) -> Tensor:
    """Causal attention in which a query reads its own page exact and earlier pages sealed; see the op.

    Float32 queries, float32 or bfloat16 exact pages, head_dim a multiple of 32; all tensors contiguous.
    """
    if layer.sealed is None:
        raise LayoutError("sealed_attention: this layer has no sealed pages; use paged_attention")
    nothing = torch.zeros(0, dtype=torch.int64)
    seals = Seals(
        layers_of([layer.sealed]),
        PageSeals(sources=nothing, targets=nothing, own_pages=own_pages),
        layer.sealed.keys.dtype,
    )
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
    call.seals = seals.address
    if not team.library.sgrt_paged_attention(team.handle, ctypes.byref(call)):
        raise MemoryError(f"no memory for the attention of {query.shape[0]} tokens")
    return out
