"""Chooses how to gate, by the tensors' device."""

from __future__ import annotations

from torch import Tensor

from sgrt_kernels.activation import Activation
from sgrt_kernels.device import runs_triton, triton_kernels
from sgrt_kernels.ops.gated_activation import reference


def gated_activation(gate_up: Tensor, kind: Activation) -> Tensor:
    """`activation(gate) * up`, [tokens, intermediate], computed in float32, returned in the input's dtype.

    gate_up: [tokens, 2 * intermediate], the gate's columns first.
    """
    if runs_triton(gate_up):
        result: Tensor = triton_kernels("gated_activation").gated_activation(gate_up, kind)
        return result
    return reference.gated_activation(gate_up, kind)
