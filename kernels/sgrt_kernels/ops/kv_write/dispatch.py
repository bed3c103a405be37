"""Chooses how to write, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.kv_write import reference


def kv_write(keys: Tensor, values: Tensor, layer: PagedLayer, slots: Tensor) -> None:
    """Store each token's key and value at its slot, rounded to the pages' dtype.

    No page ever holds NaN or an infinity: NaN is stored as 0, what is too large as the largest storable value.
    keys, values: [tokens, kv_heads, head_dim]; slots: [tokens] int64, all different.
    """
    if runs_triton(keys):
        triton_kernels("kv_write").kv_write(keys, values, layer, slots)
    else:
        reference.kv_write(keys, values, layer, slots)


def rope_kv_write(
    query: Tensor, keys: Tensor, values: Tensor, cos: Tensor, sin: Tensor, layer: PagedLayer, slots: Tensor
) -> Tensor:
    """Rotate queries and keys (`apply_rope`), store keys and values (`kv_write`); returns the rotated queries.

    On a GPU one launch. query: [tokens, heads, head_dim]; keys, values: [tokens, kv_heads, head_dim]; cos, sin:
    [tokens, head_dim / 2] float32; slots: [tokens] int64. Slots are all different but those of padding, which share
    one that nobody reads.
    """
    if runs_triton(keys):
        rotated: Tensor = triton_kernels("kv_write").rope_kv_write(
            query, keys, values, cos, sin, layer, slots
        )
        return rotated
    return reference.rope_kv_write(query, keys, values, cos, sin, layer, slots)
