"""Rotary position embedding."""

from sgrt_kernels.ops.rope.dispatch import apply_rope, rope_table

__all__ = ["apply_rope", "rope_table"]
