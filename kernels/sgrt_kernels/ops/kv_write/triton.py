"""Writes keys and values into pages on a GPU, rotating keys (and queries) on the way where asked."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.attention_tiles import storable
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.rope.triton import rotated_halves


@triton.jit
def kv_write_kernel(
    query,
    rotated_query,
    keys,
    values,
    cos,
    sin,
    key_pages,
    value_pages,
    slots,
    query_stride,
    key_stride,
    value_stride,
    HEADS: tl.constexpr,
    BLOCK_H: tl.constexpr,
    KV_HEADS: tl.constexpr,
    BLOCK_KV: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK: tl.constexpr,
    ROTATES: tl.constexpr,
):
    """One token. Grid: (tokens,). Pages are contiguous: [slots, KV_HEADS, 2 * HALF]."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slots + token).to(tl.int64)
    head, pair = tl.arange(0, BLOCK_KV), tl.arange(0, BLOCK)
    in_pairs = pair < HALF
    mask = (head < KV_HEADS)[:, None] & in_pairs[None, :]
    within = head[:, None] * (2 * HALF) + pair[None, :]
    key_at, value_at = token * key_stride + within, token * value_stride + within
    first, second = (
        tl.load(keys + key_at, mask=mask, other=0.0),
        tl.load(keys + key_at + HALF, mask=mask, other=0.0),
    )
    if ROTATES:
        c = tl.load(cos + token * HALF + pair, mask=in_pairs, other=0.0)[None, :]
        s = tl.load(sin + token * HALF + pair, mask=in_pairs, other=0.0)[None, :]
        first, second = rotated_halves(first, second, c, s)
        row = tl.arange(0, BLOCK_H)
        q_mask = (row < HEADS)[:, None] & in_pairs[None, :]
        q_within = row[:, None] * (2 * HALF) + pair[None, :]
        q_at = token * query_stride + q_within
        q_first = tl.load(query + q_at, mask=q_mask, other=0.0)
        q_second = tl.load(query + q_at + HALF, mask=q_mask, other=0.0)
        q_first, q_second = rotated_halves(q_first, q_second, c, s)
        q_out = token * (HEADS * 2 * HALF) + q_within
        tl.store(rotated_query + q_out, q_first.to(rotated_query.dtype.element_ty), mask=q_mask)
        tl.store(rotated_query + q_out + HALF, q_second.to(rotated_query.dtype.element_ty), mask=q_mask)
    page_at = slot * (KV_HEADS * 2 * HALF) + within
    tl.store(key_pages + page_at, storable(first).to(key_pages.dtype.element_ty), mask=mask)
    tl.store(key_pages + page_at + HALF, storable(second).to(key_pages.dtype.element_ty), mask=mask)
    v_first = tl.load(values + value_at, mask=mask, other=0.0)
    v_second = tl.load(values + value_at + HALF, mask=mask, other=0.0)
    tl.store(value_pages + page_at, storable(v_first).to(value_pages.dtype.element_ty), mask=mask)
    tl.store(value_pages + page_at + HALF, storable(v_second).to(value_pages.dtype.element_ty), mask=mask)


def kv_write(keys: Tensor, values: Tensor, layer: PagedLayer, slots: Tensor) -> None:
    """Store each token's key and value at its slot; see the op."""
    _launch(keys, keys, keys, values, None, None, layer, slots)


def rope_kv_write(
    query: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor, layer: PagedLayer, slots: Tensor
) -> Tensor:
    """Rotate queries and keys and store keys and values, in one launch; the rotated queries are returned.

    query: [tokens, heads, head_dim]; keys, values: [tokens, kv_heads, head_dim]; cos, sin: [tokens, head_dim / 2].
    """
    rotated = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    _launch(query, rotated, keys, values, cos, sin, layer, slots)
    return rotated


def _launch(
    query: Tensor,
    rotated: Tensor,
    keys: Tensor,
    values: Tensor,
    cos: Tensor | None,
    sin: Tensor | None,
    layer: PagedLayer,
    slots: Tensor,
) -> None:
    tokens, kv_heads, head_dim = keys.shape
    if tokens == 0:
        return
    query, keys, values = (_with_dense_heads(x) for x in (query, keys, values))
    heads = query.shape[1]
    kv_write_kernel[(tokens,)](
        query,
        rotated,
        keys,
        values,
        cos.contiguous() if cos is not None else keys,
        sin.contiguous() if sin is not None else keys,
        layer.keys,
        layer.values,
        slots,
        query.stride(0),
        keys.stride(0),
        values.stride(0),
        HEADS=heads,
        BLOCK_H=triton.next_power_of_2(heads),
        KV_HEADS=kv_heads,
        BLOCK_KV=triton.next_power_of_2(kv_heads),
        HALF=head_dim // 2,
        BLOCK=triton.next_power_of_2(head_dim // 2),
        ROTATES=cos is not None,
        num_warps=4,
    )


def _with_dense_heads(x: Tensor) -> Tensor:
    """`x` [tokens, heads, head_dim] with its heads side by side; tokens may be apart (a slice of a wider product)."""
    return x if x.stride(2) == 1 and x.stride(1) == x.shape[2] else x.contiguous()
