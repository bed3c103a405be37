"""Chooses how to attend over sealed pages, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.layout import LayoutError, PagedLayer
from sgrt_kernels.ops.sealed_attention import reference


def sealed_attention(
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
    num_single: int = 0,
    is_batch_invariant: bool = False,
) -> Tensor:
    """Causal attention of ragged chunks in which a query reads its own page exact and earlier pages sealed.

    Like paged_attention, but `page_table` [sequences, max_pages] int32 names sealed pages, and `own_pages`
    [sequences, max_own_pages] int32 the exact pages of the chunk: column `m` of row `i` is page
    `(context_lengths[i] - rows of i) // page_tokens + m` of the sequence. Which numbers a query reads depends on its
    position alone, and sums run in fixed blocks, so chunked, whole and cached-prefix runs agree. `num_single` and
    `is_batch_invariant` as for paged_attention. Raises LayoutError if the layer has no sealed pages.
    """
    if layer.sealed is None:
        raise LayoutError("sealed_attention: this layer has no sealed pages; use paged_attention")
    arguments = (query, layer, layer.sealed, query_starts, context_lengths, page_table, own_pages)
    if runs_triton(query):
        result: Tensor = triton_kernels("sealed_attention").sealed_attention(
            *arguments,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            num_single=num_single,
            is_batch_invariant=is_batch_invariant,
        )
        return result
    return reference.sealed_attention(*arguments, scale=scale, window=window, soft_cap=soft_cap)
