"""Runs Triton kernels on a CPU, with the numbers a GPU would give.

Triton's own interpreter computes bfloat16 and float8 on raw bit patterns; `enable()` replaces those parts, see
`numerics`. The process has to be started with TRITON_INTERPRET=1.
"""

from sgrt_kernels.interpreter.enable import enable

__all__ = ["enable"]
