"""Writes fresh keys and values into pages."""

from sgrt_kernels.ops.kv_write.dispatch import kv_write

__all__ = ["kv_write"]
