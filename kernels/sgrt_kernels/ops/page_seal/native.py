"""Seals pages by the CPU kernels in C++."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from sgrt_kernels.layout import LayoutError, PagedLayer, PageSeals
from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.sealed import Seals, layers_of
from sgrt_kernels.ops.paged_attention.native import attention_call


def page_seal(layer: PagedLayer, sources: Tensor, targets: Tensor) -> None:
    """Quantize the exact pages `sources` of `layer` into its sealed pages `targets`; see the op.

    Float32, bfloat16 or int16 exact pages, contiguous. Raises LayoutError if the layer has no sealed pages.
    """
    if layer.sealed is None:
        raise LayoutError("page_seal: this layer has no sealed pages; allocate them with sealed_pages(...)")
    none = torch.zeros((1, 1), dtype=torch.int32)
    seals = Seals(
        layers_of([layer.sealed]),
        PageSeals(sources=sources, targets=targets, own_pages=none),
        layer.sealed.keys.dtype,
    )
    query = torch.zeros((0, layer.kv_heads, layer.head_dim))
    call = attention_call(query, layer, none[0], none[0], none, query, scale=1.0, window=None, soft_cap=None)
    call.seals = seals.address
    if not kernels().sgrt_seal_pages(ctypes.byref(call)):
        raise MemoryError("no memory to seal pages")
