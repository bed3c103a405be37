"""Attention over a tree on a GPU: one program an item and kv head, then a merge of each row's partials."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.attention_tiles import MINUS_INF, finite_anchor, scaled, softened
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.tree_attention.plan import TreePlan


@triton.jit
def tree_item_kernel(
    query,  # [rows, heads, HEAD_DIM]
    keys,
    values,  # [pages, PAGE, kv_heads, HEAD_DIM], strided
    pages,
    rows,
    first_pages,
    first_tokens,
    token_counts,
    first_rows,
    row_counts,
    first_partials,
    partial,  # [partials, heads, HEAD_DIM] float32
    lse,  # [partials, heads] float32
    scale,
    key_page,
    key_token,
    key_head,
    value_page,
    value_token,
    value_head,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_M: tl.constexpr,  # (row, head of the group) pairs
    BLOCK_N: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Grid: (items, kv heads). Padding items have no rows and leave at once."""
    item, kv_head = tl.program_id(0), tl.program_id(1)
    row_count = tl.load(row_counts + item)
    if row_count == 0:
        return
    heads = tl.num_programs(1) * GROUP
    packed = tl.arange(0, BLOCK_M)
    index, head = packed // GROUP, kv_head * GROUP + packed % GROUP
    is_row = index < row_count
    token, channel = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    in_head = channel < HEAD_DIM
    row = tl.load(rows + tl.load(first_rows + item) + index, mask=is_row, other=0).to(tl.int64)
    q_mask = is_row[:, None] & in_head[None, :]
    q = tl.load(query + (row * heads + head)[:, None] * HEAD_DIM + channel[None, :], mask=q_mask, other=0.0)
    count = tl.load(token_counts + item)
    first_token = tl.load(first_tokens + item)
    table = pages + tl.load(first_pages + item)
    top = tl.full((BLOCK_M,), MINUS_INF, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    merged = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    key_base, value_base = keys + kv_head * key_head, values + kv_head * value_head
    for start in tl.range(0, count, BLOCK_N, num_stages=STAGES):
        is_live = start + token < count
        at = first_token + start + token
        page = tl.load(table + at // PAGE, mask=is_live, other=0).to(tl.int64)
        key_at = page * key_page + (at % PAGE) * key_token
        k_mask = is_live[None, :] & in_head[:, None]
        k = tl.load(key_base + key_at[None, :] + channel[:, None], mask=k_mask, other=0.0).to(q.dtype)
        scores = scaled(tl.dot(q, k, input_precision="ieee"), scale, SOFT_CAP)
        scores = tl.where(is_live[None, :], scores, MINUS_INF)
        top, shrink, weight = softened(scores, top, 1)
        total = total * shrink + tl.sum(weight, axis=1)
        value_at = page * value_page + (at % PAGE) * value_token
        v_mask = is_live[:, None] & in_head[None, :]
        v = tl.load(value_base + value_at[:, None] + channel[None, :], mask=v_mask, other=0.0).to(q.dtype)
        merged = tl.dot(weight.to(q.dtype), v, merged * shrink[:, None], input_precision="ieee")
    seen = total > 0
    safe = tl.where(seen, total, 1.0)
    out_at = (tl.load(first_partials + item) + index).to(tl.int64) * heads + head
    tl.store(partial + out_at[:, None] * HEAD_DIM + channel[None, :], merged / safe[:, None], mask=q_mask)
    tl.store(lse + out_at, tl.where(seen, top + tl.log2(safe), MINUS_INF), mask=is_row)


@triton.jit
def tree_merge_kernel(
    partial,
    lse,
    merge_starts,
    merge_partials,
    out,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """Merge the partials of one (row, head), in the order of the context. Grid: (rows, heads)."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    heads = tl.num_programs(1)
    channel = tl.arange(0, BLOCK_D)
    in_head = channel < HEAD_DIM
    top = tl.full((), MINUS_INF, tl.float32)
    total = tl.zeros((), tl.float32)
    merged = tl.zeros((BLOCK_D,), tl.float32)
    for entry in range(tl.load(merge_starts + row), tl.load(merge_starts + row + 1)):
        at = tl.load(merge_partials + entry).to(tl.int64) * heads + head
        exponent = tl.load(lse + at)
        highest = tl.maximum(top, exponent)
        anchor = finite_anchor(highest)
        shrink, weight = tl.exp2(top - anchor), tl.exp2(exponent - anchor)
        merged = merged * shrink + weight * tl.load(
            partial + at * HEAD_DIM + channel, mask=in_head, other=0.0
        )
        total = total * shrink + weight
        top = highest
    merged = merged / tl.where(total > 0, total, 1.0)
    tl.store(out + (row * heads + head) * HEAD_DIM + channel, merged.to(out.dtype.element_ty), mask=in_head)


def tree_attention(
    query: Tensor,
    layer: PagedLayer,
    plan: TreePlan,
    *,
    scale: float,
    soft_cap: float | None = None,
    tokens_per_block: int = 64,
    stages: int = 3,
) -> Tensor:
    """Attention of one query token per row over the pages of `plan`; see the op."""
    query = query.contiguous()
    out = torch.empty_like(query)
    rows, heads, head_dim = query.shape
    if rows == 0:
        return out
    kv_heads = layer.keys.shape[2]
    group = heads // kv_heads
    block_rows = max(16, triton.next_power_of_2(plan.rows_per_item * group))
    partial = torch.empty(
        (max(plan.num_partials, 1), heads, head_dim), dtype=torch.float32, device=query.device
    )
    lse = torch.empty((max(plan.num_partials, 1), heads), dtype=torch.float32, device=query.device)
    tree_item_kernel[(plan.num_items, kv_heads)](
        query,
        layer.keys,
        layer.values,
        plan.pages,
        plan.rows,
        plan.first_pages,
        plan.first_tokens,
        plan.token_counts,
        plan.first_rows,
        plan.row_counts,
        plan.first_partials,
        partial,
        lse,
        scale,
        *layer.keys.stride()[:3],
        *layer.values.stride()[:3],
        GROUP=group,
        HEAD_DIM=head_dim,
        BLOCK_D=triton.next_power_of_2(head_dim),
        PAGE=layer.page_tokens,
        BLOCK_M=block_rows,
        BLOCK_N=tokens_per_block,
        SOFT_CAP=soft_cap or 0.0,
        STAGES=stages,
        num_warps=4 if block_rows <= 64 else 8,
    )
    tree_merge_kernel[(rows, heads)](
        partial,
        lse,
        plan.merge_starts,
        plan.merge_partials,
        out,
        HEAD_DIM=head_dim,
        BLOCK_D=triton.next_power_of_2(head_dim),
        num_warps=1,
    )
    return out
