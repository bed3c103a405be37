"""Attention over sealed and exact pages on a GPU, in Triton.

The shape of the kernels is that of paged_attention: slots of a 3D dot for decode, tiles of rows for extend. How blocks
of sealed pages are read is said in `sgrt_kernels.sealed_tiles`.
"""

from __future__ import annotations

from typing import Unpack

import torch
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
from sgrt_kernels.layout import PagedLayer, SealedPages
from sgrt_kernels.sealed_codes import code_kind, codes
from sgrt_kernels.sealed_tiles import (
    half_of_code,
    half_of_int8,
    relative_scale,
    sealed_keys,
    sealed_value_codes,
)


@triton.jit(do_not_specialize=STEP_SIZES, do_not_specialize_on_alignment=STEP_NUMBERS)
def sealed_decode_kernel(
    query,  # [sequences, heads, HEAD_DIM]
    exact_keys,
    exact_values,  # [exact pages, PAGE, kv_heads, HEAD_DIM], contiguous
    keys,  # [pages, PAGE, kv_heads, HEAD_DIM], strided
    key_scales,
    key_scale_bases,
    key_offsets,  # [pages, kv_heads, HEAD_DIM]
    key_offset_scales,  # [pages, kv_heads], as key_scale_bases
    values,
    value_scales,  # [pages, PAGE, kv_heads], strided
    page_table,
    own_pages,
    context_lengths,
    first_pages,
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
    BLOCK_H: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PAGE: tl.constexpr,
    BLOCK_N: tl.constexpr,  # divides PAGE
    SLOTS: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_REST: tl.constexpr,
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    STAGES: tl.constexpr,
    CODE: tl.constexpr,
    PTX: tl.constexpr,  # whether the target runs inline PTX
):
    """One query token per sequence. Grid: (sequences, kv heads, SPLITS); split 0 reads the exact page too."""
    sequence, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    kv_heads = tl.num_programs(1)
    context = tl.load(context_lengths + sequence)
    row, channel = tl.arange(0, BLOCK_H), tl.arange(0, BLOCK_D)
    slot, token = tl.arange(0, SLOTS), tl.arange(0, BLOCK_N)
    in_group, in_head = row < GROUP, channel < HEAD_DIM
    # tokens of the exact page at a time: more of a wide head would not leave room for the sums in registers
    OWN: tl.constexpr = min(PAGE, 32 if BLOCK_D <= 128 else 16)
    head = kv_head * GROUP + row
    q = group_query(query, sequence, query_stride, head, in_group, HEAD_DIM, BLOCK_D).to(tl.float16)
    q_slots = tl.broadcast_to(q[None, :, :], (SLOTS, BLOCK_D, BLOCK_H))
    own = (context - 1) // PAGE
    first = 0
    if WINDOW > 0:
        first = tl.maximum(context - WINDOW, 0) // BLOCK_N
    if IS_REST:
        first = tl.load(first_pages + sequence) * (PAGE // BLOCK_N)
    last = own * (PAGE // BLOCK_N)
    first = tl.minimum(first, last)
    per_split = tl.cdiv(tl.cdiv(last - first, SPLITS), SLOTS) * SLOTS
    low = first + split * per_split
    high = tl.minimum(low + per_split, last)
    top = tl.full((SLOTS, BLOCK_H), MINUS_INF, tl.float32)
    total = tl.zeros((SLOTS, BLOCK_H), tl.float32)
    merged = tl.zeros((SLOTS, BLOCK_D, BLOCK_H), tl.float32)
    table = page_table + sequence.to(tl.int64) * table_stride
    for start in tl.range(low, high, SLOTS, num_stages=STAGES):
        block = start + slot
        is_live = block < high
        page = tl.load(table + (block * BLOCK_N) // PAGE, mask=is_live, other=0).to(tl.int64)
        inside = (block * BLOCK_N) % PAGE
        load_mask = is_live[:, None, None] & in_head[None, None, :]
        key_at = (page * key_page + inside * key_token + kv_head * key_head)[:, None, None]
        k = tl.load(
            keys + key_at + (token * key_token)[None, :, None] + channel[None, None, :],
            mask=load_mask,
            other=0.0,
        )
        head_at = page * kv_heads + kv_head
        channel_at = head_at[:, None] * HEAD_DIM + channel[None, :]
        channel_mask = is_live[:, None] & in_head[None, :]
        base = tl.load(key_scale_bases + head_at, mask=is_live, other=1.0)
        offset_scale = tl.load(key_offset_scales + head_at, mask=is_live, other=0.0)
        relative = relative_scale(tl.load(key_scales + channel_at, mask=channel_mask, other=0), CODE)
        offset = half_of_int8(tl.load(key_offsets + channel_at, mask=channel_mask, other=0), PTX)
        offset = offset * (offset_scale / base).to(tl.float16)[:, None]
        k = tl.fma(half_of_code(k, CODE, PTX), relative[:, None, :], offset[:, None, :])
        value_scale_at = page * value_scale_page + inside * value_scale_token + kv_head * value_scale_head
        # a slot without a block has the scale 0: its scores become -inf, its weights 0
        v_scale = tl.load(
            value_scales + value_scale_at[:, None] + (token * value_scale_token)[None, :],
            mask=is_live[:, None],
            other=0.0,
        ).to(tl.float32)
        inverse = tl.where(v_scale > 0, 1.0 / v_scale, 0.0)
        if WINDOW > 0:
            in_window = block[:, None] * BLOCK_N + token[None, :] >= context - WINDOW
            v_scale = tl.where(in_window, v_scale, 0.0)
        scores = scaled(tl.dot(k, q_slots), (base * scale)[:, None, None], SOFT_CAP)
        scores = scores + tl.log2(v_scale)[:, :, None]  # [SLOTS, BLOCK_N, BLOCK_H]
        top, shrink, weight = softened(scores, top, 1)
        total = total * shrink + tl.sum(weight * inverse[:, :, None], axis=1)
        value_at = (page * value_page + inside * value_token + kv_head * value_head)[:, None, None]
        value_at = value_at + (channel * value_channel)[None, :, None] + (token * value_token)[None, None, :]
        v = tl.load(values + value_at, mask=is_live[:, None, None] & in_head[None, :, None], other=0.0)
        merged = tl.dot(half_of_code(v, CODE, PTX), weight.to(tl.float16), merged * shrink[:, None, :])
    if CODE == "soft_fp8":
        merged = merged * 256.0
    top_all, total_all, merged_all = merged_slots(top, total, merged)
    if split == 0:
        page = tl.load(own_pages + sequence.to(tl.int64) * own_stride).to(tl.int64)
        for part in range(PAGE // OWN):
            inside = part * OWN + tl.arange(0, OWN)
            position = own * PAGE + inside
            visible_own = position < context
            exact_at = ((page * PAGE + inside) * kv_heads + kv_head) * HEAD_DIM
            exact_mask = visible_own[:, None] & in_head[None, :]
            k_own = tl.load(exact_keys + exact_at[:, None] + channel[None, :], mask=exact_mask, other=0.0)
            scores_own = scaled(tl.dot(k_own.to(tl.float16), q), scale, SOFT_CAP)
            if WINDOW > 0:
                visible_own = visible_own & (position >= context - WINDOW)
            scores_own = tl.where(visible_own[:, None], scores_own, MINUS_INF)
            top_all, shrink_own, weight_own = softened(scores_own, top_all, 0)
            total_all = total_all * shrink_own + tl.sum(weight_own, axis=0)
            v_own = tl.load(exact_values + exact_at[:, None] + channel[None, :], mask=exact_mask, other=0.0)
            weighted = tl.dot(tl.trans(v_own.to(tl.float16)), weight_own.to(tl.float16))
            merged_all = merged_all * shrink_own[None, :] + weighted
    heads = kv_heads * GROUP
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
def sealed_extend_kernel(
    query,  # float16
    exact_keys,
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
    query_starts,
    context_lengths,
    out,
    scale,
    first_sequence,  # those before it are decoded
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
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,  # divides PAGE
    WINDOW: tl.constexpr,
    SOFT_CAP: tl.constexpr,
    STAGES: tl.constexpr,
    CODE: tl.constexpr,
    PTX: tl.constexpr,  # whether the target runs inline PTX
):
    """Ragged chunks over sealed pages, then the exact pages the tile lies in. Grid as in extend_kernel."""
    tile, kv_head, sequence = tl.program_id(0), tl.program_id(1), tl.program_id(2) + first_sequence
    kv_heads = tl.num_programs(1)
    first_row = tl.load(query_starts + sequence)
    count = tl.load(query_starts + sequence + 1) - first_row
    if tile * BLOCK_M >= count * GROUP:
        return
    context = tl.load(context_lengths + sequence)
    offset, head = rows_of_tile(tile, kv_head, BLOCK_M, GROUP)
    position = context - count + offset
    token, channel = tl.arange(0, BLOCK_N), tl.arange(0, BLOCK_D)
    per_page: tl.constexpr = PAGE // BLOCK_N
    in_chunk, in_head = offset < count, channel < HEAD_DIM
    row_mask = in_chunk[:, None] & in_head[None, :]
    row_at = (first_row + offset).to(tl.int64) * query_stride + head * HEAD_DIM
    q = tl.load(query + row_at[:, None] + channel[None, :], mask=row_mask, other=0.0)
    lowest, furthest = reach_of_tile(tile, context - count, context, BLOCK_M, GROUP)
    first_block = 0
    if WINDOW > 0:
        first_block = tl.maximum(lowest - WINDOW + 1, 0) // PAGE * per_page
    top = tl.full((BLOCK_M,), MINUS_INF, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    merged = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    table = page_table + sequence.to(tl.int64) * table_stride
    for block in tl.range(first_block, furthest // PAGE * per_page, num_stages=STAGES):
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
        seen = block * BLOCK_N + token
        visible = (block // per_page < position // PAGE)[:, None] & (token[None, :] >= 0)
        if WINDOW > 0:
            visible = visible & (seen[None, :] > position[:, None] - WINDOW)
        value_scale_at = page * value_scale_page + kv_head * value_scale_head + inside * value_scale_token
        v_scale = tl.load(value_scales + value_scale_at).to(tl.float32)
        scores = tl.where(visible, scores + tl.log2(v_scale)[None, :], MINUS_INF)
        top, shrink, weight = softened(scores, top, 1)
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
    first_own = (context - count) // PAGE
    own_table = own_pages + sequence.to(tl.int64) * own_stride
    for block in range(lowest // PAGE * per_page, furthest // BLOCK_N + 1):
        page = tl.load(own_table + block // per_page - first_own).to(tl.int64)
        seen = block * BLOCK_N + token
        is_written = seen < context
        exact_at = ((page * PAGE + block % per_page * BLOCK_N + token) * kv_heads + kv_head) * HEAD_DIM
        exact_mask = is_written[:, None] & in_head[None, :]
        k_own = tl.load(exact_keys + exact_at[:, None] + channel[None, :], mask=exact_mask, other=0.0)
        scores = scaled(tl.dot(q, tl.trans(k_own.to(tl.float16))), scale, SOFT_CAP)
        visible = (block // per_page == position // PAGE)[:, None] & (seen[None, :] <= position[:, None])
        if WINDOW > 0:
            visible = visible & (seen[None, :] > position[:, None] - WINDOW)
        scores = tl.where(visible, scores, MINUS_INF)
        top, shrink, weight = softened(scores, top, 1)
        total = total * shrink + tl.sum(weight, axis=1)
        v_own = tl.load(exact_values + exact_at[:, None] + channel[None, :], mask=exact_mask, other=0.0)
        merged = tl.dot(weight.to(tl.float16), v_own.to(tl.float16), merged * shrink[:, None])
    safe = tl.where(total > 0, total, 1.0)
    result = merged / safe[:, None]
    tl.store(out + row_at[:, None] + channel[None, :], result.to(out.dtype.element_ty), mask=row_mask)


def pages_of(layer: PagedLayer, sealed: SealedPages, page_table: Tensor, own_pages: Tensor) -> AttentionPages:
    """Sealed pages and the exact ones that queries lie in, for the kernels."""
    kind = code_kind(sealed)
    return AttentionPages(
        decode=sealed_decode_kernel,
        extend=sealed_extend_kernel,
        tensors=(
            layer.keys,
            layer.values,
            codes(sealed.keys, kind),
            sealed.key_scales,
            sealed.key_scale_bases,
            sealed.key_offsets,
            sealed.key_offset_scales,
            codes(sealed.values, kind),
            sealed.value_scales,
            page_table,
            own_pages,
        ),
        strides=(
            page_table.stride(0),
            own_pages.stride(0),
            *sealed.keys.stride()[:3],
            *sealed.values.stride(),
            *sealed.value_scales.stride(),
        ),
        constants={"CODE": kind, "PTX": sealed.keys.is_cuda},
        is_in_pages=True,
        tile_dtype=torch.float16,
        dtype=sealed.keys.dtype,
        kv_heads=layer.keys.shape[2],
        page_tokens=layer.page_tokens,
        max_context=page_table.shape[1] * layer.page_tokens,
    )


def sealed_attention(
    query: Tensor,
    layer: PagedLayer,
    sealed: SealedPages,
    query_starts: Tensor,
    context_lengths: Tensor,
    page_table: Tensor,
    own_pages: Tensor,
    **options: Unpack[AttentionOptions],
) -> Tensor:
    """Causal attention over sealed and exact pages; see the op."""
    pages = pages_of(layer, sealed, page_table, own_pages)
    return attend(query, query_starts, context_lengths, pages, **options)
