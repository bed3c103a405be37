"""Paged attention on a GPU: split-context decode and tiled extend, in Triton.

Decode: one program serves one (sequence, kv head, split) and all query heads of the group. Its warps do not share a
tile: block `w` of every `SLOTS` blocks of the context belongs to slot `w` (the batch dimension of a 3D dot, one warp
each), every slot keeps a softmax of its own, and the slots meet once, at the end. Tiles are turned, keys times queries
and values times weights: tokens and channels fill the 16 rows of a matrix instruction, and the few heads of a group
its 8 columns, where the usual order would compute on rows of padding.

Extend: one program serves a tile of (query, head of the group) rows of one sequence and one kv head; blocks of the
context that every row sees whole skip the mask.
"""

from __future__ import annotations

from typing import Unpack

import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.attention_launch import AttentionOptions, AttentionPages, attend
from sgrt_kernels.attention_tiles import (
    MINUS_INF,
    STEP_NUMBERS,
    STEP_SIZES,
    group_query,
    merged_slots,
    reach_of_tile,
    rows_of_tile,
    scaled,
    softened,
    store_split,
)
from sgrt_kernels.layout import PagedLayer


@triton.jit(do_not_specialize=STEP_SIZES, do_not_specialize_on_alignment=STEP_NUMBERS)
def decode_kernel(
    query,  # [sequences, heads, HEAD_DIM]
    keys,
    values,  # [pages, PAGE, kv_heads, HEAD_DIM], strided
    page_table,  # [sequences, max_pages] int32
    context_lengths,  # [sequences] int32
    first_pages,  # [sequences] int32, where IS_REST the page from which a context is read
    partial,  # [sequences, heads, SPLITS, HEAD_DIM] float32, or the result where it is whole
    lse,  # [sequences, heads, SPLITS] float32
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
    BLOCK_H: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr,  # divides PAGE
    SLOTS: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_REST: tl.constexpr,
    WINDOW: tl.constexpr,  # 0: none; and none where IS_REST
    SOFT_CAP: tl.constexpr,
    STAGES: tl.constexpr,
):
    """One query token per sequence against its context. Grid: (sequences, kv heads, SPLITS)."""
    sequence, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    context = tl.load(context_lengths + sequence)
    row, channel = tl.arange(0, BLOCK_H), tl.arange(0, BLOCK_D)
    slot, token = tl.arange(0, SLOTS), tl.arange(0, BLOCK_N)
    in_group, in_head = row < GROUP, channel < HEAD_DIM
    head = kv_head * GROUP + row
    q = group_query(query, sequence, query_stride, head, in_group, HEAD_DIM, BLOCK_D)
    q = tl.broadcast_to(q[None, :, :], (SLOTS, BLOCK_D, BLOCK_H))
    first = 0
    if WINDOW > 0:
        first = tl.maximum(context - WINDOW, 0) // BLOCK_N
    if IS_REST:
        first = tl.load(first_pages + sequence) * (PAGE // BLOCK_N)
    last = tl.cdiv(context, BLOCK_N)
    per_split = tl.cdiv(tl.cdiv(last - first, SPLITS), SLOTS) * SLOTS
    low = first + split * per_split
    high = tl.minimum(low + per_split, last)
    top = tl.full((SLOTS, BLOCK_H), MINUS_INF, tl.float32)
    total = tl.zeros((SLOTS, BLOCK_H), tl.float32)
    merged = tl.zeros((SLOTS, BLOCK_D, BLOCK_H), tl.float32)
    table = page_table + sequence.to(tl.int64) * table_stride
    for start in tl.range(low, high, SLOTS, num_stages=STAGES):
        block = start + slot
        position = block[:, None] * BLOCK_N + token[None, :]
        page = tl.load(table + (block * BLOCK_N) // PAGE, mask=block < high, other=0).to(tl.int64)
        inside = (block * BLOCK_N) % PAGE
        in_context = (position < context) & (block < high)[:, None]
        key_at = (page * key_page + inside * key_token + kv_head * key_head)[:, None, None]
        key_at = key_at + (token * key_token)[None, :, None] + channel[None, None, :]
        k_mask = in_context[:, :, None] & in_head[None, None, :]
        k = tl.load(keys + key_at, mask=k_mask, other=0.0).to(q.dtype)
        scores = scaled(tl.dot(k, q, input_precision="ieee"), scale, SOFT_CAP)  # [SLOTS, BLOCK_N, BLOCK_H]
        visible = in_context
        if WINDOW > 0:
            visible = visible & (position >= context - WINDOW)
        scores = tl.where(visible[:, :, None], scores, MINUS_INF)
        top, shrink, weight = softened(scores, top, 1)
        total = total * shrink + tl.sum(weight, axis=1)
        # loaded as [SLOTS, BLOCK_D, BLOCK_N], whichever of the two lies side by side: a turned copy would not be
        # copied ahead of its use
        value_at = (page * value_page + inside * value_token + kv_head * value_head)[:, None, None]
        value_at = value_at + channel[None, :, None] + (token * value_token)[None, None, :]
        v_mask = in_context[:, None, :] & in_head[None, :, None]
        v = tl.load(values + value_at, mask=v_mask, other=0.0).to(q.dtype)
        merged = tl.dot(v, weight.to(q.dtype), merged * shrink[:, None, :], input_precision="ieee")
    top_all, total_all, merged_all = merged_slots(top, total, merged)
    heads = tl.num_programs(1) * GROUP
    store_split(
        top_all,
        total_all,
        merged_all,
        partial,
        lse,
        sequence,
        heads,
        head,
        split,
        in_group,
        HEAD_DIM,
        BLOCK_D,
        SPLITS,
        (SPLITS > 1) | IS_REST,
    )


@triton.jit(do_not_specialize=STEP_SIZES, do_not_specialize_on_alignment=STEP_NUMBERS)
def extend_kernel(
    query,  # [tokens, heads, HEAD_DIM]
    keys,
    values,
    page_table,
    query_starts,  # [sequences + 1] int32
    context_lengths,
    out,  # [tokens, heads, HEAD_DIM]
    scale,
    first_sequence,  # those before it are decoded
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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Ragged chunks, causal. Grid: (tiles of the longest chunk, kv heads, sequences)."""
    tile, kv_head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2) + first_sequence
    first_row = tl.load(query_starts + sequence)
    count = tl.load(query_starts + sequence + 1) - first_row
    if tile * BLOCK_M >= count * GROUP:
        return
    context = tl.load(context_lengths + sequence)
    offset, head = rows_of_tile(tile, kv_head, BLOCK_M, GROUP)
    position = context - count + offset
    token, channel = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    in_chunk, in_head = offset < count, channel < HEAD_DIM
    row_mask = in_chunk[:, None] & in_head[None, :]
    row_at = (first_row + offset).to(tl.int64) * query_stride + head * HEAD_DIM
    q = tl.load(query + row_at[:, None] + channel[None, :], mask=row_mask, other=0.0)
    lowest, furthest = reach_of_tile(tile, context - count, context, BLOCK_M, GROUP)
    start = 0
    if WINDOW > 0:
        start = (tl.maximum(lowest - WINDOW + 1, 0) // BLOCK_N) * BLOCK_N
    top = tl.full((BLOCK_M,), MINUS_INF, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    merged = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    table = page_table + sequence.to(tl.int64) * table_stride
    key_base, value_base = keys + kv_head * key_head, values + kv_head * value_head
    for first in tl.range(start, furthest + 1, BLOCK_N, num_stages=STAGES):
        seen = first + token
        is_written = seen < context
        page = tl.load(table + seen // PAGE, mask=is_written, other=0).to(tl.int64)
        key_at = page * key_page + (seen % PAGE) * key_token
        k = tl.load(
            key_base + key_at[None, :] + channel[:, None],
            mask=is_written[None, :] & in_head[:, None],
            other=0.0,
        )
        scores = scaled(tl.dot(q, k.to(q.dtype), input_precision="ieee"), scale, SOFT_CAP)
        visible = seen[None, :] <= position[:, None]
        if WINDOW > 0:
            visible = visible & (seen[None, :] > position[:, None] - WINDOW)
        scores = tl.where(visible, scores, MINUS_INF)
        top, shrink, weight = softened(scores, top, 1)
        total = total * shrink + tl.sum(weight, axis=1)
        value_at = page * value_page + (seen % PAGE) * value_token
        v = tl.load(
            value_base + value_at[:, None] + channel[None, :],
            mask=is_written[:, None] & in_head[None, :],
            other=0.0,
        )
        merged = tl.dot(weight.to(q.dtype), v.to(q.dtype), merged * shrink[:, None], input_precision="ieee")
    result = merged / tl.where(total > 0, total, 1.0)[:, None]
    tl.store(out + row_at[:, None] + channel[None, :], result.to(out.dtype.element_ty), mask=row_mask)


def pages_of(layer: PagedLayer, page_table: Tensor) -> AttentionPages:
    """Exact pages, for the kernels."""
    return AttentionPages(
        decode=decode_kernel,
        extend=extend_kernel,
        tensors=(layer.keys, layer.values, page_table),
        strides=(page_table.stride(0), *layer.keys.stride()[:3], *layer.values.stride()[:3]),
        constants={},
        is_in_pages=False,
        tile_dtype=None,
        dtype=layer.keys.dtype,
        kv_heads=layer.keys.shape[2],
        page_tokens=layer.page_tokens,
        max_context=page_table.shape[1] * layer.page_tokens,
    )


def paged_attention(
    query: Tensor,
    layer: PagedLayer,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    **options: Unpack[AttentionOptions],
) -> Tensor:
    """Causal attention of ragged chunks; see the op."""
    return attend(query, query_starts, context_lengths, pages_of(layer, page_table), **options)
