"""Chooses how to seal, by the pages' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import KernelBackend, kernel_backend, triton_kernels
from sgrt_kernels.layout import LayoutError, PagedLayer
from sgrt_kernels.ops.page_seal import reference


def page_seal(layer: PagedLayer, sources: Tensor, targets: Tensor) -> None:
    """Quantize the exact pages `sources` of `layer` into its sealed pages `targets`.

    sources, targets: [seals] int64; targets all different. Every element is made finite and clamped before it is
    cast: NaN becomes 0, infinities the largest storable value, so neither can enter a page. The same input gives the
    same bytes on every device. Raises LayoutError if the layer has no sealed pages or their shapes differ.
    """
    if layer.sealed is None:
        raise LayoutError("page_seal: this layer has no sealed pages; allocate them with sealed_pages(...)")
    if layer.sealed.keys.shape[1:] != layer.keys.shape[1:]:
        raise LayoutError(
            "page_seal: exact pages hold (tokens, kv_heads, head_dim) = "
            f"{tuple(layer.keys.shape[1:])}, sealed pages {tuple(layer.sealed.keys.shape[1:])}: make them equal"
        )
    if kernel_backend(layer.keys) is KernelBackend.TRITON:
        triton_kernels("page_seal").page_seal(layer, layer.sealed, sources, targets)
    else:
        reference.page_seal(layer, layer.sealed, sources, targets)
