"""Attention over a tree in plain torch: item by item, then row by row."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.tree_attention.plan import TreePlan


def tree_attention(
    query: Tensor, layer: PagedLayer, plan: TreePlan, *, scale: float, soft_cap: float | None = None
) -> Tensor:
    """Attention of one query token per row over the pages of `plan`; see the op."""
    rows, heads, head_dim = query.shape
    dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    q = query.to(dtype) * scale
    partial = q.new_zeros(plan.num_partials, heads, head_dim)
    lse = q.new_full((plan.num_partials, heads), float("-inf"))
    for item in range(plan.num_items):
        count, first = int(plan.row_counts[item]), int(plan.first_partials[item])
        if int(plan.token_counts[item]) == 0 or count == 0:
            continue
        first_row = int(plan.first_rows[item])
        keys, values = _item_tokens(layer, plan, item, dtype)
        of_rows = q[plan.rows[first_row : first_row + count].to(torch.int64)]
        scores = torch.einsum("rhd,nhd->rhn", of_rows, keys.repeat_interleave(heads // keys.shape[1], 1))
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        lse[first : first + count] = scores.logsumexp(-1)
        expanded = values.repeat_interleave(heads // values.shape[1], 1)
        partial[first : first + count] = torch.einsum("rhn,nhd->rhd", scores.softmax(-1), expanded)
    out = torch.zeros_like(q)
    for row in range(rows):
        mine = plan.merge_partials[int(plan.merge_starts[row]) : int(plan.merge_starts[row + 1])].to(
            torch.int64
        )
        if mine.numel():
            out[row] = torch.einsum("ph,phd->hd", lse[mine].softmax(0), partial[mine])
    return out.to(query.dtype)


def _item_tokens(layer: PagedLayer, plan: TreePlan, item: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    tokens = int(plan.first_tokens[item]) + torch.arange(
        int(plan.token_counts[item]), device=layer.keys.device
    )
    pages = plan.pages[int(plan.first_pages[item]) + tokens // plan.page_tokens].to(torch.int64)
    inside = tokens % plan.page_tokens
    return layer.keys[pages, inside].to(dtype), layer.values[pages, inside].to(dtype)
