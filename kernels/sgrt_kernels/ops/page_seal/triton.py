"""Quantizes full pages on a GPU: the reference's operations in the reference's order, so the bytes are the same."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.attention_tiles import storable
from sgrt_kernels.float8 import float8_bits, to_even
from sgrt_kernels.layout import PagedLayer, SealedPages
from sgrt_kernels.ops.page_seal.reference import OFFSET_RANGE
from sgrt_kernels.scale_code import LARGEST, SMALLEST, SMALLEST_BASE
from sgrt_kernels.sealed_codes import code_kind, codes

_OFFSET_RANGE = tl.constexpr(OFFSET_RANGE)
_LARGEST_CODE = tl.constexpr(LARGEST)
_SMALLEST_CODE = tl.constexpr(SMALLEST)
_SMALLEST_BASE = tl.constexpr(SMALLEST_BASE)


@triton.jit
def _bfloat16_above(x):
    bits = tl.maximum(x, _SMALLEST_BASE).to(tl.int32, bitcast=True)
    return (((bits + 0xFFFF) >> 16) << 16).to(tl.float32, bitcast=True)


@triton.jit
def _code(x, limit, CODE: tl.constexpr):
    x = tl.minimum(tl.maximum(x, -limit), limit)
    if CODE == "int8":
        return to_even(x).to(tl.int8)
    elif CODE == "soft_fp8":
        return float8_bits(x)
    else:
        return x.to(tl.float8e4nv)


@triton.jit
def page_seal_kernel(
    exact_keys,
    exact_values,  # [exact pages, PAGE, kv_heads, HEAD_DIM], contiguous
    sources,
    targets,  # [seals] int64
    count,  # [1] int32
    keys,
    key_scales,
    key_scale_bases,
    key_offsets,
    key_offset_scales,
    values,
    value_scales,
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
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    PAGE: tl.constexpr,
    CODE: tl.constexpr,
    HAS_COUNT: tl.constexpr,  # programs of seals from `count` on leave at once
):
    """One (page, kv head). Grid: (seals, kv heads)."""
    seal, kv_head = tl.program_id(0), tl.program_id(1)
    if HAS_COUNT:  # noqa: SIM102  # a constant: what is inside is compiled only with it
        if seal >= tl.load(count):
            return
    kv_heads = tl.num_programs(1)
    limit = 127.0 if CODE == "int8" else 448.0
    source, target = tl.load(sources + seal).to(tl.int64), tl.load(targets + seal).to(tl.int64)
    token, channel = tl.arange(0, PAGE), tl.arange(0, BLOCK_D)
    in_head = channel < HEAD_DIM
    exact_at = ((source * PAGE + token) * kv_heads + kv_head) * HEAD_DIM
    exact_at = exact_at[:, None] + channel[None, :]
    head_at = target * kv_heads + kv_head
    channel_at = head_at * HEAD_DIM + channel
    k = storable(tl.load(exact_keys + exact_at, mask=in_head[None, :], other=0.0))
    middle = (tl.max(k, axis=0) + tl.min(k, axis=0)) * 0.5
    offset_scale = tl.maximum(tl.div_rn(tl.max(tl.abs(middle), axis=0), _OFFSET_RANGE), _SMALLEST_BASE)
    offset = to_even(tl.div_rn(middle, offset_scale + tl.zeros_like(middle)))
    offset = tl.minimum(tl.maximum(offset, -_OFFSET_RANGE), _OFFSET_RANGE)
    rest = k - (offset * offset_scale)[None, :]
    wanted = tl.div_rn(tl.max(tl.abs(rest), axis=0), limit + tl.zeros_like(middle))
    base = tl.maximum(tl.div_rn(tl.max(wanted, axis=0), _LARGEST_CODE), _SMALLEST_BASE)
    relative = tl.div_rn(wanted, base + tl.zeros_like(middle))
    relative = tl.minimum(tl.maximum(relative, _SMALLEST_CODE), _LARGEST_CODE)
    code = (relative.to(tl.int32, bitcast=True) - ((127 - 7) << 23) + ((1 << 18) - 1)) >> 18
    scale = ((code << 18) + ((127 - 7) << 23)).to(tl.float32, bitcast=True) * base
    sealed_keys = _code(tl.div_rn(rest, scale[None, :] + tl.zeros_like(rest)), limit, CODE)
    key_at = target * key_page + kv_head * key_head + token * key_token
    tl.store(keys + key_at[:, None] + channel[None, :], sealed_keys, mask=in_head[None, :])
    tl.store(key_scales + channel_at, code.to(tl.uint8), mask=in_head)
    tl.store(key_offsets + channel_at, offset.to(tl.int8), mask=in_head)
    tl.store(key_scale_bases + head_at, base)
    tl.store(key_offset_scales + head_at, offset_scale)
    v = storable(tl.load(exact_values + exact_at, mask=in_head[None, :], other=0.0))
    largest = tl.max(tl.abs(v), axis=1)
    value_scale = _bfloat16_above(tl.div_rn(largest, limit + tl.zeros_like(largest)))
    sealed_values = _code(tl.div_rn(v, value_scale[:, None] + tl.zeros_like(v)), limit, CODE)
    value_at = target * value_page + kv_head * value_head + token * value_token
    tl.store(
        values + value_at[:, None] + (channel * value_channel)[None, :], sealed_values, mask=in_head[None, :]
    )
    value_scale_at = target * value_scale_page + kv_head * value_scale_head + token * value_scale_token
    tl.store(value_scales + value_scale_at, value_scale.to(tl.bfloat16))


def page_seal(
    layer: PagedLayer, sealed: SealedPages, sources: Tensor, targets: Tensor, count: Tensor | None = None
) -> None:
    """Quantize the exact pages `sources` into the sealed pages `targets`; see the op."""
    if sources.numel() == 0:
        return
    _, page_tokens, kv_heads, head_dim = layer.keys.shape
    kind = code_kind(sealed)
    page_seal_kernel[(sources.shape[0], kv_heads)](
        layer.keys,
        layer.values,
        sources,
        targets,
        sources if count is None else count,
        codes(sealed.keys, kind),
        sealed.key_scales,
        sealed.key_scale_bases,
        sealed.key_offsets,
        sealed.key_offset_scales,
        codes(sealed.values, kind),
        sealed.value_scales,
        *sealed.keys.stride()[:3],
        *sealed.values.stride(),
        *sealed.value_scales.stride(),
        HEAD_DIM=head_dim,
        BLOCK_D=triton.next_power_of_2(head_dim),
        PAGE=page_tokens,
        CODE=kind,
        HAS_COUNT=count is not None,
        num_warps=4,
    )
