"""Chooses how to write, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import triton_kernels
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.kv_write import reference


def kv_write(keys: Tensor, values: Tensor, layer: PagedLayer, slots: Tensor) -> None:
    """Store each token's key and value at its slot, rounded to the pages' dtype.

    No page ever holds NaN or an infinity: NaN is stored as 0, what is too large as the largest storable value.
    keys, values: [tokens, kv_heads, head_dim]; slots: [tokens] int64, all different.
    """
    if keys.is_cuda:
        triton_kernels("kv_write").kv_write(keys, values, layer, slots)
    else:
        reference.kv_write(keys, values, layer, slots)
