"""Root-mean-square normalization, with the residual sum it usually follows."""

from sgrt_kernels.ops.rms_norm.dispatch import rms_norm

__all__ = ["rms_norm"]
