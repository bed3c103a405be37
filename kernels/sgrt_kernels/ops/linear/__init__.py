"""Matrix product whose rows do not depend on their neighbours."""

from sgrt_kernels.ops.linear.dispatch import linear

__all__ = ["linear"]
