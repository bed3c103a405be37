"""Quantizes full pages in plain torch. Every operation is exact or rounds once, so other devices can repeat it."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.layout import LARGEST_KEY_VALUE, PagedLayer, SealedPages, code_range
from sgrt_kernels.scale_code import decode_scales, encode_scales

SMALLEST_SCALE = 2.0**-100  # in place of 0, so that a page of zeros divides
OFFSET_RANGE = 448.0  # of float8_e4m3fn


def page_seal(layer: PagedLayer, sealed: SealedPages, sources: Tensor, targets: Tensor) -> None:
    """Quantize the exact pages `sources` into the sealed pages `targets`; see the op."""
    keys, values = _finite(layer.keys[sources]), _finite(layer.values[sources])
    dtype = sealed.keys.dtype
    middles = (keys.amax(dim=1) + keys.amin(dim=1)) * 0.5  # [seals, kv_heads, head_dim]
    offset_scales = _bfloat16_above(middles.abs().amax(dim=-1) / OFFSET_RANGE)
    offsets = _saturated(middles / offset_scales[..., None], torch.float8_e4m3fn)
    rest = keys - (offsets.to(torch.float32) * offset_scales[..., None])[:, None]
    key_scales = encode_scales(rest.abs().amax(dim=1) / code_range(dtype))
    value_scales = _bfloat16_above(values.abs().amax(dim=-1) / code_range(dtype))
    sealed.keys[targets] = _saturated(rest / decode_scales(key_scales)[:, None], dtype)
    sealed.key_scales[targets] = key_scales
    sealed.key_offsets[targets] = offsets
    sealed.key_offset_scales[targets] = offset_scales.to(torch.bfloat16)
    sealed.values[targets] = _saturated(values / value_scales[..., None], dtype)
    sealed.value_scales[targets] = value_scales.to(torch.bfloat16)


def _finite(pages: Tensor) -> Tensor:
    wide = torch.nan_to_num(pages.to(torch.float32), nan=0.0)
    return wide.clamp(-LARGEST_KEY_VALUE, LARGEST_KEY_VALUE)


def _bfloat16_above(scales: Tensor) -> Tensor:
    """The smallest bfloat16 values that reach `scales` (>= 0), as float32."""
    bits = scales.clamp_min(SMALLEST_SCALE).view(torch.int32)
    return ((bits + 0xFFFF) >> 16 << 16).view(torch.float32)


def _saturated(x: Tensor, dtype: torch.dtype) -> Tensor:
    """`x` rounded to nearest even in `dtype`, clamped first: what a cast does out of range differs by device."""
    limit = code_range(dtype)
    clamped = x.clamp(-limit, limit)
    return clamped.round().to(dtype) if dtype == torch.int8 else clamped.to(dtype)
