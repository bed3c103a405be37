"""Chooses how to multiply, by the tensors' device."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from sgrt_kernels.device import runs_triton
from sgrt_kernels.ops.linear import reference


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias`; a row's result does not depend on how many rows there are, nor on where it stands.

    x: [tokens, in]; weight: [out, in]; bias: [out]. Returns [tokens, out] in x's dtype.
    """
    if runs_triton(x):  # cuBLAS; there the promise about rows is the library's to keep
        return functional.linear(x, weight, bias)
    return reference.linear(x, weight, bias)
