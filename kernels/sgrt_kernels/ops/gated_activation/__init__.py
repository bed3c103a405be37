"""The gate of a feed-forward block."""

from sgrt_kernels.ops.gated_activation.dispatch import gated_activation

__all__ = ["gated_activation"]
