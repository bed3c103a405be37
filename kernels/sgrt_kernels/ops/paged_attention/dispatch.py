"""Chooses how to attend, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.paged_attention import reference


def paged_attention(
    query: Tensor,
    layer: PagedLayer,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    *,
    scale: float,
    window: int | None = None,
    soft_cap: float | None = None,
    num_single: int = 0,
    is_batch_invariant: bool = False,
) -> Tensor:
    """Causal attention of each sequence's last tokens over its whole context.

    query: [tokens, heads, head_dim]; heads is a multiple of the pages' kv heads, query head `h` reads kv head
    `h // (heads / kv_heads)`. Sequence `i` owns the rows `query_starts[i]:query_starts[i + 1]`, the last of its
    `context_lengths[i]` tokens, whose keys and values already lie in the pages of `page_table[i]`.
    query_starts: [sequences + 1] int32; context_lengths: [sequences] int32; page_table: [sequences, max_pages] int32.
    `window`: a token sees itself and the `window - 1` before it. `soft_cap`: scores become
    `soft_cap * tanh(scores / soft_cap)`. Sums run in float32, in fixed blocks of tokens merged in order, so a row's
    result depends on its own context alone. No chunk may be empty. `num_single`: so many of the first sequences have one
    row; a GPU decodes them apart from the chunks behind them. How it cuts a context for that depends on the batch, and
    with it the last bits, unless `is_batch_invariant` asks for a cut that does not. Returns [tokens, heads, head_dim] in the query's dtype.
    """
    if runs_triton(query):
        result: Tensor = triton_kernels("paged_attention").paged_attention(
            query,
            layer,
            query_starts,
            context_lengths,
            page_table,
            scale=scale,
            window=window,
            soft_cap=soft_cap,
            num_single=num_single,
            is_batch_invariant=is_batch_invariant,
        )
        return result
    return reference.paged_attention(
        query, layer, query_starts, context_lengths, page_table, scale=scale, window=window, soft_cap=soft_cap
    )
