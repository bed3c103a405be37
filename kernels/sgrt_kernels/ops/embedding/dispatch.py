"""Chooses how to look up, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.ops.embedding import reference


def embedding(token_ids: Tensor, weight: Tensor) -> Tensor:
    """The rows of `weight` [vocabulary, width] named by `token_ids` [tokens] int64: [tokens, width]."""
    if runs_triton(weight):
        result: Tensor = triton_kernels("embedding").embedding(token_ids, weight)
        return result
    return reference.embedding(token_ids, weight)
