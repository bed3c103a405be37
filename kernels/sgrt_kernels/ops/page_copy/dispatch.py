"""Chooses how to copy, by the pages' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.page_copy import reference


def page_copy(layer: PagedLayer, sources: Tensor, targets: Tensor, lengths: Tensor) -> None:
    """Copy the first `lengths` tokens of the exact pages `sources` into the exact pages `targets`.

    sources, targets, lengths: [copies] int64; targets are all different, and none is a source. Tokens past a length
    keep what they held.
    """
    if runs_triton(layer.keys):
        triton_kernels("page_copy").page_copy(layer, sources, targets, lengths)
    else:
        reference.page_copy(layer, sources, targets, lengths)
