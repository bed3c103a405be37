"""Chooses how to multiply, by the tensors' device."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from sgrt_kernels.device import runs_triton
from sgrt_kernels.ops.linear import reference

_GPU_ROW_BLOCK = 128  # a decode step has fewer rows, and takes as long with as many


def linear(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, is_batch_invariant: bool = False
) -> Tensor:
    """`x @ weight.T + bias`.

    x: [tokens, in]; weight: [out, in]; bias: [out]. Returns [tokens, out] in x's dtype. On a CPU a row's result depends
    neither on how many rows there are nor on where it stands. On a GPU cuBLAS chooses its sums by the number of rows,
    unless `is_batch_invariant` has it given the same number every time.
    """
    if not runs_triton(x):
        return reference.linear(x, weight, bias)
    if is_batch_invariant:
        return reference.linear(x, weight, bias, row_block=_GPU_ROW_BLOCK)
    return functional.linear(x, weight, bias)
