"""Compiles a kernel launch for an absent GPU, through the path a real launch takes.

A stub stands in for Triton's driver, so arguments (meta tensors) are specialised as they would be: alignment, ones,
descriptors. Needs a process without TRITON_INTERPRET.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

CompiledKernel = Any  # triton.compiler.CompiledKernel
Kernel = Any  # triton.runtime.jit.JITFunction
Argument = Tensor | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A kernel with the arguments of one launch; tensors lie on the meta device."""

    name: str
    kernel: Kernel
    arguments: tuple[Argument, ...]
    options: Mapping[str, object]  # constexprs, num_warps


class _AbsentGpu:
    """As much of a Triton driver as compilation asks for."""

    def __init__(self, arch: int) -> None:
        self._arch = arch

    def get_current_device(self) -> str:
        """One kernel cache for each target."""
        return f"cuda:{self._arch}"

    def set_current_device(self, device: object) -> None:
        """There is only this one."""

    def get_current_stream(self, device: object = None) -> int:
        """The default stream."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """What to compile for."""
        return GPUTarget("cuda", self._arch, 32)

    def get_active_torch_device(self) -> torch.device:
        """Where arguments lie."""
        return torch.device("meta")

    def is_active(self) -> bool:
        """Chosen by hand."""
        return True


def compile_launch(launch: Launch, arch: int) -> CompiledKernel:
    """Compile `launch` for compute capability `arch` (90 for 9.0). Raises RuntimeError in an interpreting process."""
    if knobs.runtime.interpret:
        raise RuntimeError("compile_launch: unset TRITON_INTERPRET; interpreted kernels have no code")
    previous = driver._active
    stub: Kernel = _AbsentGpu(arch)  # Triton asks for no more than it has
    driver.set_active(stub)
    try:
        return launch.kernel.warmup(*launch.arguments, grid=(1,), **launch.options)
    finally:
        driver._active = previous


def meta(*shape: int, dtype: torch.dtype) -> Tensor:
    """A tensor of which only shape and dtype matter."""
    return torch.empty(shape, dtype=dtype, device="meta")
