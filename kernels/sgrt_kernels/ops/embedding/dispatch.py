"""Chooses how to look up, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import triton_kernels
from sgrt_kernels.ops.embedding import reference


def embedding(token_ids: Tensor, weight: Tensor) -> Tensor:
    """The rows of `weight` [vocabulary, width] named by `token_ids` [tokens] int64: [tokens, width]."""
    if weight.is_cuda:
        result: Tensor = triton_kernels("embedding").embedding(token_ids, weight)
        return result
    return reference.embedding(token_ids, weight)
