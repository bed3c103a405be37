"""Products with weights in ggml's quantized types: int8 activations, exact integer sums, floats in one order."""

from sgrt_kernels.ops.packed_linear.dispatch import packed_linear

__all__ = ["packed_linear"]
