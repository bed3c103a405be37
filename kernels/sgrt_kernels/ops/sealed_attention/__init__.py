"""Causal attention over sealed pages and the exact page each query lies in."""

from sgrt_kernels.ops.sealed_attention.dispatch import sealed_attention

__all__ = ["sealed_attention"]
