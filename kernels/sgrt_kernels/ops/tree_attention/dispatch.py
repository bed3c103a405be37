"""Chooses how to attend over a tree, by the query's device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.tree_attention import reference
from sgrt_kernels.ops.tree_attention.plan import TreePlan


def tree_attention(
    query: Tensor,
    layer: PagedLayer,
    tree: TreePlan,
    context_lengths: Tensor,
    page_table: Tensor,
    own_pages: Tensor | None = None,
    *,
    scale: float,
    soft_cap: float | None = None,
) -> Tensor:
    """Attention of sequences that decode one token each, over exact or sealed pages.

    query: [rows, heads, head_dim]. Equal to paged_attention, or where the layer has sealed pages to sealed_attention
    with these `own_pages`, but the leading pages that rows share are read once for `tree.rows_per_item` of them.
    `tree` is planned from the same `page_table` (`plan_tree`). Returns the query's shape and dtype.
    """
    arguments = (query, layer, tree, context_lengths, page_table, own_pages)
    if runs_triton(query):
        result: Tensor = triton_kernels("tree_attention").tree_attention(
            *arguments, scale=scale, soft_cap=soft_cap
        )
        return result
    return reference.tree_attention(*arguments, scale=scale, soft_cap=soft_cap)
