"""Switches a process to interpreted kernels."""

from __future__ import annotations

import triton.language as tl
import triton.runtime.interpreter as stock
from triton import knobs

from sgrt_kernels.interpreter import numerics, speed


def enable(*, sanitize: bool = False) -> None:
    """Give interpreted kernels correct numerics. Calling it again changes nothing.

    Triton reads TRITON_INTERPRET=1 when it is imported and when a kernel is decorated, so the variable has to be set
    before the process starts. With `sanitize`, integer overflow in offset arithmetic and `tl.device_assert` raise.
    """
    if not (knobs.runtime.interpret and isinstance(tl.max, stock.InterpretedFunction)):
        raise RuntimeError("interpreter.enable: start Python with TRITON_INTERPRET=1 in its environment")
    numerics.install()
    speed.install(sanitize=sanitize)
