"""Causal attention of ragged chunks over paged keys and values."""

from sgrt_kernels.ops.paged_attention.dispatch import paged_attention

__all__ = ["paged_attention"]
