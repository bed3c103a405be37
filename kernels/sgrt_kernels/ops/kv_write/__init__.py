"""Writes keys and values into pages, with their rotation before it."""

from sgrt_kernels.ops.kv_write.dispatch import kv_write, rope_kv_write

__all__ = ["kv_write", "rope_kv_write"]
