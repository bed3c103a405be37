"""Decode over a tree on a GPU: one program an item and kv head, the rest of each context split as ever, then one merge."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.attention_launch import AttentionPages, Partials, TritonKernel, decode_splits
from sgrt_kernels.attention_tiles import (
    MINUS_INF,
    STEP_NUMBERS,
    STEP_SIZES,
    finite_anchor,
    scaled,
    softened,
)
from sgrt_kernels.configurations import AttentionConfig
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.paged_attention import triton as paged
from sgrt_kernels.ops.sealed_attention import triton as sealed
from sgrt_kernels.ops.tree_attention.plan import TreePlan
from sgrt_kernels.sealed_tiles import sealed_keys, sealed_value_codes


@triton.jit
def item_rows(rows, item, row_count, kv_head, BLOCK_M: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr):
    """The pairs of an item, heads innermost: place in the item, query row, head, and whether there is such a row."""
    packed = tl.arange(0, BLOCK_M)
    place, head = packed // GROUP, kv_head * GROUP + packed % GROUP
    is_row = place < row_count
    return place, tl.load(rows + item * ROWS + place, mask=is_row, other=0).to(tl.int64), head, is_row


@triton.jit
def store_item(
    top,
    total,
    merged,
    partial,
    lse,
    item,
    place,
    head,
    heads,
    is_row,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Write the partials of an item's rows, which have seen its pages whole, normalized."""
    channel = tl.arange(0, BLOCK_D)
    at = (item * ROWS + place).to(tl.int64) * heads + head
    tl.store(
        partial + at[:, None] * HEAD_DIM + channel[None, :],
        merged / total[:, None],
        mask=is_row[:, None] & (channel < HEAD_DIM)[None, :],
    )
    tl.store(lse + at, top + tl.log2(total), mask=is_row)


@triton.jit(do_not_specialize=STEP_SIZES, do_not_specialize_on_alignment=STEP_NUMBERS)
def tree_item_kernel(
    query,  # [rows, heads, HEAD_DIM]
    keys,
    values,  # [pages, PAGE, kv_heads, HEAD_DIM], strided
    page_table,
    items,  # [items, 3] int32: first page, pages, rows
    rows,  # [items, ROWS] int32
    partial,  # [items * ROWS, heads, HEAD_DIM] float32
    lse,  # [items * ROWS, heads] float32
    scale,
    query_stride,
    table_stride,
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
    SOFT_CAP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,  # (row, head of the group) pairs
    BLOCK_N: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Over exact pages. Grid: (items, kv heads). Empty items have no rows and leave at once."""
    item, kv_head = tl.program_id(0), tl.program_id(1)
    row_count = tl.load(items + item * 3 + 2)
    if row_count == 0:
        return
    heads = tl.num_programs(1) * GROUP
    place, row, head, is_row = item_rows(rows, item, row_count, kv_head, BLOCK_M, GROUP, ROWS)
    token, channel = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    in_head = channel < HEAD_DIM
    q_at = (row * query_stride + head * HEAD_DIM)[:, None] + channel[None, :]
    q = tl.load(query + q_at, mask=is_row[:, None] & in_head[None, :], other=0.0)
    count = tl.load(items + item * 3 + 1) * PAGE
    table = page_table + tl.load(rows + item * ROWS).to(tl.int64) * table_stride + tl.load(items + item * 3)
    top = tl.full((BLOCK_M,), MINUS_INF, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    merged = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    key_base, value_base = keys + kv_head * key_head, values + kv_head * value_head
    for start in tl.range(0, count, BLOCK_N, num_stages=STAGES):
        at = start + token
        is_live = at < count
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
    store_item(top, total, merged, partial, lse, item, place, head, heads, is_row, HEAD_DIM, BLOCK_D, ROWS)


@triton.jit(do_not_specialize=STEP_SIZES, do_not_specialize_on_alignment=STEP_NUMBERS)
def sealed_tree_item_kernel(
    query,  # float16
    exact_keys,  # not read, as own_pages: what rows share is sealed
    exact_values,
    keys,
    key_scales,
    key_scale_bases,
    key_offsets,
    key_offset_scales,
    values,
    value_scales,
    page_table,
    own_pages,
    items,
    rows,
    partial,
    lse,
    scale,
    query_stride,
    table_stride,
    own_stride,
    key_page,
    key_token,
    key_head,
    value_page,
    value_token,
    value_head,
    value_channel,
    value_scale_page,
    value_scale_token,
    value_scale_head,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PAGE: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,  # divides PAGE
    STAGES: tl.constexpr,
    CODE: tl.constexpr,
    PTX: tl.constexpr,
):
    """Over sealed pages; everything else as in tree_item_kernel."""
    item, kv_head = tl.program_id(0), tl.program_id(1)
    row_count = tl.load(items + item * 3 + 2)
    if row_count == 0:
        return
    kv_heads = tl.num_programs(1)
    place, row, head, is_row = item_rows(rows, item, row_count, kv_head, BLOCK_M, GROUP, ROWS)
    token, channel = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    q_at = (row * query_stride + head * HEAD_DIM)[:, None] + channel[None, :]
    q = tl.load(query + q_at, mask=is_row[:, None] & (channel < HEAD_DIM)[None, :], other=0.0)
    per_page: tl.constexpr = PAGE // BLOCK_N
    table = page_table + tl.load(rows + item * ROWS).to(tl.int64) * table_stride + tl.load(items + item * 3)
    top = tl.full((BLOCK_M,), MINUS_INF, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    merged = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    for block in tl.range(0, tl.load(items + item * 3 + 1) * per_page, num_stages=STAGES):
        page = tl.load(table + block // per_page).to(tl.int64)
        inside = block % per_page * BLOCK_N + token
        k, base = sealed_keys(
            keys,
            key_scales,
            key_scale_bases,
            key_offsets,
            key_offset_scales,
            page,
            inside,
            kv_head,
            kv_heads,
            key_page,
            key_token,
            key_head,
            HEAD_DIM,
            BLOCK_D,
            CODE,
            PTX,
        )
        scores = scaled(tl.dot(q, tl.trans(k)), base * scale, SOFT_CAP)
        value_scale_at = page * value_scale_page + kv_head * value_scale_head + inside * value_scale_token
        v_scale = tl.load(value_scales + value_scale_at).to(tl.float32)
        top, shrink, weight = softened(scores + tl.log2(v_scale)[None, :], top, 1)
        total = total * shrink + tl.sum(weight * (1.0 / v_scale)[None, :], axis=1)
        v = sealed_value_codes(
            values,
            page,
            inside,
            kv_head,
            value_page,
            value_token,
            value_head,
            value_channel,
            HEAD_DIM,
            BLOCK_D,
            CODE,
            PTX,
        )
        merged = tl.dot(weight.to(tl.float16), v, merged * shrink[:, None])
    if CODE == "soft_fp8":
        merged = merged * 256.0
    heads = kv_heads * GROUP
    store_item(top, total, merged, partial, lse, item, place, head, heads, is_row, HEAD_DIM, BLOCK_D, ROWS)


@triton.jit(do_not_specialize_on_alignment=STEP_NUMBERS)
def tree_merge_kernel(
    shared,  # [partials, heads, HEAD_DIM] float32, of the items
    shared_lse,  # [partials, heads] float32
    merge_starts,
    merge_partials,
    rest,  # [rows, heads, SPLITS, HEAD_DIM] float32, of what each row reads alone
    rest_lse,  # [rows, heads, SPLITS] float32
    out,  # [rows, heads, HEAD_DIM]
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Merge the partials of one (row, head): the rest, then the items in the order of the context. Grid: (rows, heads)."""
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    heads = tl.num_programs(1)
    split, channel = tl.arange(0, SPLITS), tl.arange(0, BLOCK_D)
    in_head = channel < HEAD_DIM
    rest_at = (row * heads + head) * SPLITS + split
    exponents = tl.load(rest_lse + rest_at)
    top = tl.max(exponents, axis=0)  # no row's rest is empty: it holds the newest token
    weights = tl.exp2(exponents - top)
    # an empty split's partial may hold anything
    mask = (weights > 0)[:, None] & in_head[None, :]
    values = tl.load(rest + rest_at[:, None] * HEAD_DIM + channel[None, :], mask=mask, other=0.0)
    merged, total = tl.sum(values * weights[:, None], axis=0), tl.sum(weights, axis=0)
    for entry in range(tl.load(merge_starts + row), tl.load(merge_starts + row + 1)):
        at = tl.load(merge_partials + entry).to(tl.int64) * heads + head
        exponent = tl.load(shared_lse + at)
        highest = tl.maximum(top, exponent)
        anchor = finite_anchor(highest)
        shrink, weight = tl.exp2(top - anchor), tl.exp2(exponent - anchor)
        part = tl.load(shared + at * HEAD_DIM + channel, mask=in_head, other=0.0)
        merged = merged * shrink + weight * part
        total = total * shrink + weight
        top = highest
    result = (merged / total).to(out.dtype.element_ty)
    tl.store(out + (row * heads + head) * HEAD_DIM + channel, result, mask=in_head)


_EXACT_ITEM: TritonKernel = tree_item_kernel
_SEALED_ITEM: TritonKernel = sealed_tree_item_kernel
_MERGE: TritonKernel = tree_merge_kernel


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
    config: AttentionConfig | None = None,
) -> Tensor:
    """Attention of decoding rows, the leading pages that they share read once; see the op."""
    query = query.contiguous()
    out = torch.empty_like(query)
    rows, heads, head_dim = query.shape
    if rows == 0:
        return out
    if layer.sealed is None:
        pages, kernel = paged.pages_of(layer, page_table), _EXACT_ITEM
    else:
        assert own_pages is not None, "sealed pages come with the exact pages that rows lie in"
        pages, kernel = sealed.pages_of(layer, layer.sealed, page_table, own_pages), _SEALED_ITEM
    config = config or pages.config(query)
    shared = _run_items(query, pages, kernel, tree, config, scale=scale, soft_cap=soft_cap)
    rest = decode_splits(
        query,
        context_lengths,
        pages,
        config,
        scale=scale,
        out=out,
        soft_cap=soft_cap,
        first_pages=tree.first_pages,
    )
    assert rest is not None, "the rest of a tree's rows is left to be merged"
    _MERGE[(rows, heads)](
        shared.values,
        shared.lse,
        tree.merge_starts,
        tree.merge_partials,
        rest.values,
        rest.lse,
        out,
        HEAD_DIM=head_dim,
        BLOCK_D=triton.next_power_of_2(head_dim),
        SPLITS=rest.splits,
        num_warps=1,
    )
    return out


def _run_items(
    query: Tensor,
    pages: AttentionPages,
    kernel: TritonKernel,
    tree: TreePlan,
    config: AttentionConfig,
    *,
    scale: float,
    soft_cap: float | None,
) -> Partials:
    """The partials of all items; those of empty ones and of places without rows hold anything."""
    slots, rows_per_item = tree.rows.shape
    _, heads, head_dim = query.shape
    count = slots * rows_per_item
    values = torch.empty((count, heads, head_dim), dtype=torch.float32, device=query.device)
    lse = torch.empty((count, heads), dtype=torch.float32, device=query.device)
    in_page = min(config.tree_tokens, pages.page_tokens)
    kernel[(slots, pages.kv_heads)](
        query.to(pages.tile_dtype or query.dtype),
        *pages.tensors,
        tree.items,
        tree.rows,
        values,
        lse,
        scale,
        query.stride(0),
        *pages.strides,
        **pages.shape_constants(query, soft_cap=soft_cap),
        ROWS=rows_per_item,
        BLOCK_M=item_tile(rows_per_item, heads // pages.kv_heads),
        BLOCK_N=in_page if pages.is_in_pages else config.tree_tokens,
        STAGES=config.tree_stages,
        num_warps=config.tree_warps,
    )
    return Partials(values=values, lse=lse, splits=1)


def item_tile(rows_per_item: int, group: int) -> int:
    """(row, head of the group) pairs of a tile; a matrix instruction has 16."""
    return max(16, int(triton.next_power_of_2(rows_per_item * group)))
