"""Quantizes full pages, once."""

from sgrt_kernels.ops.page_seal.dispatch import page_seal

__all__ = ["page_seal"]
