"""Looks up token embeddings."""

from sgrt_kernels.ops.embedding.dispatch import embedding

__all__ = ["embedding"]
