"""Chooses how to seal, by the pages' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.layout import LayoutError, PagedLayer
from sgrt_kernels.ops.page_seal import reference


def page_seal(layer: PagedLayer, sources: Tensor, targets: Tensor, count: Tensor | None = None) -> None:
    """Quantize the exact pages `sources` of `layer` into its sealed pages `targets`.

    sources, targets: [seals] int64; targets all different. With `count` [1] int32 the first so many of them alone.
    Every element is made finite and clamped before it is
    cast: NaN becomes 0, infinities the largest storable value, so neither can enter a page. The same input gives the
    same bytes on every device. Raises LayoutError if the layer has no sealed pages or their shapes differ.
    """
    if layer.sealed is None:
        raise LayoutError("page_seal: this layer has no sealed pages; allocate them with sealed_pages(...)")
    exact = (layer.page_tokens, layer.kv_heads, layer.head_dim)
    if layer.sealed.keys.shape[1:] != exact:
        raise LayoutError(
            f"page_seal: exact pages hold (tokens, kv_heads, head_dim) = {exact}, sealed pages {tuple(layer.sealed.keys.shape[1:])}: make them equal"
        )
    if runs_triton(layer.keys):
        triton_kernels("page_seal").page_seal(layer, layer.sealed, sources, targets, count)
    else:
        if count is not None:
            sources, targets = sources[: int(count)], targets[: int(count)]
        reference.page_seal(layer, layer.sealed, sources, targets)
