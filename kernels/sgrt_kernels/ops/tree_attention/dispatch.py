"""Chooses how to attend over a tree, by the query's device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.tree_attention import reference
from sgrt_kernels.ops.tree_attention.plan import TreePlan


def tree_attention(
    query: Tensor, layer: PagedLayer, plan: TreePlan, *, scale: float, soft_cap: float | None = None
) -> Tensor:
    """Attention of one query token per row over the exact pages that `plan` gives it.

    query: [rows, heads, head_dim]. Equal to paged_attention over each row's whole context, but what rows share is
    read once for `plan.rows_per_item` of them. A row without tokens gives zeros. Returns the query's shape and dtype.
    """
    if runs_triton(query):
        result: Tensor = triton_kernels("tree_attention").tree_attention(
            query, layer, plan, scale=scale, soft_cap=soft_cap
        )
        return result
    return reference.tree_attention(query, layer, plan, scale=scale, soft_cap=soft_cap)
