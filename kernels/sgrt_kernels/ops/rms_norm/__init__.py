"""Root-mean-square normalization, with the residual sum before it and the cast to float8 after it."""

from sgrt_kernels.ops.rms_norm.dispatch import rms_norm, rms_norm_quantized

__all__ = ["rms_norm", "rms_norm_quantized"]
