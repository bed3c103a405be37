"""The gate of a feed-forward block in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from sgrt_kernels.activation import Activation


def gated_activation(gate_up: Tensor, kind: Activation) -> Tensor:
    """`activation(gate) * up`; see the op."""
    wide = gate_up if gate_up.dtype == torch.float64 else gate_up.to(torch.float32)
    gate, up = wide.chunk(2, dim=-1)
    match kind:
        case Activation.SILU:
            bent = functional.silu(gate)
        case Activation.GELU_TANH:
            bent = functional.gelu(gate, approximate="tanh")
    return (bent * up).to(gate_up.dtype)
