"""Writes keys and values into pages in plain torch."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.integer_pages import write_keys, write_values
from sgrt_kernels.layout import PagedLayer, storable
from sgrt_kernels.ops.rope.reference import apply_rope


def kv_write(keys: Tensor, values: Tensor, layer: PagedLayer, slots: Tensor) -> None:
    """Store each token's key and value at its slot; see the op."""
    if layer.is_integer:
        write_keys(layer.keys, slots, storable(keys))
        write_values(layer.values, slots, storable(values))
        return
    for tokens, pages in ((keys, layer.keys), (values, layer.values)):
        pages.view(-1, *pages.shape[2:]).index_copy_(0, slots, storable(tokens).to(pages.dtype))


def rope_kv_write(
    query: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor, layer: PagedLayer, slots: Tensor
) -> Tensor:
    """Rotate queries and keys, store keys and values; see the op."""
    kv_write(apply_rope(keys, cos, sin), values, layer, slots)
    return apply_rope(query, cos, sin)
