"""Writes keys and values into pages in plain torch."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.layout import PagedLayer, storable


def kv_write(keys: Tensor, values: Tensor, layer: PagedLayer, slots: Tensor) -> None:
    """Store each token's key and value at its slot; see the op."""
    for tokens, pages in ((keys, layer.keys), (values, layer.values)):
        pages.view(-1, *pages.shape[2:]).index_copy_(0, slots, storable(tokens).to(pages.dtype))
