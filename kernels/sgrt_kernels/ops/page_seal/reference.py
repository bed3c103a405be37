"""Quantizes full pages in plain torch. Every operation is exact or rounds once, so other devices can repeat it."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer, SealedPages, code_range, storable
from sgrt_kernels.scale_code import SMALLEST_BASE, bfloat16_above, decode_scales, encode_scales, scale_bases

OFFSET_RANGE = 127.0  # of int8


def page_seal(layer: PagedLayer, sealed: SealedPages, sources: Tensor, targets: Tensor) -> None:
    """Quantize the exact pages `sources` into the sealed pages `targets`; see the op."""
    keys, values = (storable(pages.to(torch.float32)) for pages in layer.in_pages(sources))
    dtype = sealed.keys.dtype
    middles = (keys.amax(dim=1) + keys.amin(dim=1)) * 0.5  # [seals, kv_heads, head_dim]
    offset_scales = (middles.abs().amax(dim=-1) / OFFSET_RANGE).clamp_min(SMALLEST_BASE)
    offsets = _saturated(middles / offset_scales[..., None], torch.int8)
    rest = keys - (offsets.to(torch.float32) * offset_scales[..., None])[:, None]
    key_scales = rest.abs().amax(dim=1) / code_range(dtype)
    bases = scale_bases(key_scales)
    key_codes = encode_scales(key_scales, bases)
    value_scales = bfloat16_above(values.abs().amax(dim=-1) / code_range(dtype))
    sealed.keys[targets] = _saturated(rest / decode_scales(key_codes, bases)[:, None], dtype)
    sealed.key_scales[targets] = key_codes
    sealed.key_scale_bases[targets] = bases
    sealed.key_offsets[targets] = offsets
    sealed.key_offset_scales[targets] = offset_scales
    sealed.values[targets] = _saturated(values / value_scales[..., None], dtype)
    sealed.value_scales[targets] = value_scales.to(torch.bfloat16)


def _saturated(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` rounded to nearest even in `dtype`, clamped first: what a cast does out of range differs by device."""
    limit = code_range(dtype)
    clamped = x.clamp(-limit, limit)
    return clamped.round().to(dtype) if dtype == torch.int8 else clamped.to(dtype)
