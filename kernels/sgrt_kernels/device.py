"""The one place that knows which devices there are: everything that touches CUDA or Triton is reached from here.

Importing this module imports torch alone. `sgrt_kernels.cuda` is imported when something lies on a GPU, Triton when
the first tensor there asks for a kernel.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import Protocol

import torch
from torch import Tensor


class KernelBackend(StrEnum):
    """Where an op's kernel runs."""

    REFERENCE = "reference"
    TRITON = "triton"


class UnsupportedDeviceError(RuntimeError):
    """A device for which there are no kernels, or that is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProperties:
    """What kernels need to know of a GPU to choose their configurations."""

    name: str
    arch: int  # compute capability, 90 for 9.0
    multiprocessors: int
    shared_bytes: int  # shared memory one block may ask for
    total_bytes: int


class GraphCapture(Protocol):
    """Records work of fixed shapes once, so that it can be repeated without being launched kernel by kernel."""

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run `run` a few times, to warm up, and record it; returns what repeats it on the same tensors' contents.

        `run` leaves its results in tensors that outlive it. Repeating computes as `run` would, without waiting.
        """
        ...


_override: ContextVar[KernelBackend | None] = ContextVar("sgrt_kernel_backend", default=None)


@contextmanager
def kernels_on(backend: KernelBackend) -> Iterator[None]:
    """Ops run on `backend` whatever their tensors' device. Triton over CPU tensors needs Triton's interpreter."""
    token = _override.set(backend)
    try:
        yield
    finally:
        _override.reset(token)


def kernel_backend(tensor: Tensor) -> KernelBackend:
    """The backend that serves `tensor`'s device: Triton on CUDA, the reference on a CPU; see `kernels_on`.

    Raises UnsupportedDeviceError for any other device.
    """
    override = _override.get()
    if override is not None:
        return override
    match tensor.device.type:
        case "cpu":
            return KernelBackend.REFERENCE
        case "cuda":
            return KernelBackend.TRITON
        case other:
            raise UnsupportedDeviceError(
                f"no kernels for device '{other}': move the tensors to 'cpu' or 'cuda' (got shape {tuple(tensor.shape)})"
            )


def runs_triton(tensor: Tensor) -> bool:
    """Whether an op over `tensor` runs its Triton kernel; errors as for `kernel_backend`."""
    return kernel_backend(tensor) is KernelBackend.TRITON


def is_overridden() -> bool:
    """Whether `kernels_on` is in force: a CPU's native kernels then stand aside."""
    return _override.get() is not None


def triton_kernels(op: str) -> ModuleType:
    """The Triton module of op `op`; imports Triton, so call it for tensors on a GPU only."""
    # fused multiply-adds: half the instructions of a dequantization; Triton asks for the choice to be made
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    return importlib.import_module(f"sgrt_kernels.ops.{op}.triton")


def usable_device(name: str) -> torch.device:
    """The device called `name`: "cpu", "cuda", or one GPU of several, "cuda:1".

    Raises UnsupportedDeviceError if the name says nothing, or there is no such GPU here.
    """
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UnsupportedDeviceError(f"{name!r} names no device; use 'cpu', 'cuda' or 'cuda:N'") from error
    if device.type == "cpu":
        return torch.device("cpu")
    if device.type != "cuda":
        raise UnsupportedDeviceError(f"there are no kernels for {name!r}; use 'cpu' or 'cuda'")
    found = num_gpus()
    if found == 0:
        build = "a build of torch without CUDA" if torch.version.cuda is None else "no usable GPU or driver"
        raise UnsupportedDeviceError(
            f"{name!r} is not there: torch {torch.__version__} finds no GPU ({build}); use 'cpu', or install a CUDA "
            "build of torch on a machine with a GPU"
        )
    index = device.index or 0
    if index >= found:
        raise UnsupportedDeviceError(
            f"{name!r} is not there: this machine has {found} GPUs, the first is 'cuda:0'"
        )
    return torch.device("cuda", index)


def num_gpus() -> int:
    """How many CUDA devices torch can use here."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def gpu_properties(device: torch.device) -> GpuProperties:
    """Properties of the CUDA device `device`."""
    found: GpuProperties = _cuda().properties(device)
    return found


def free_gpu_bytes(device: torch.device) -> int:
    """Memory of the CUDA device `device` that nobody has taken."""
    free: int = _cuda().free_bytes(device)
    return free


def finish(device: torch.device) -> None:
    """Wait until `device` has computed what it was asked for."""
    if device.type == "cuda":
        _cuda().finish(device)


def graph_capture(device: torch.device) -> GraphCapture | None:
    """What records work on `device`; None where launching costs nothing that recording would save."""
    if device.type != "cuda":
        return None
    capture: GraphCapture = _cuda().CudaGraphs(device)
    return capture


def staging(size: int | tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Uninitialized memory of the host to be filled for `upload`: page-locked where `device` is a GPU."""
    if device.type != "cuda":
        return torch.empty(size, dtype=dtype)
    pinned: Tensor = _cuda().pinned(size, dtype)
    return pinned


def upload(values: Tensor, device: torch.device) -> Tensor:
    """`values`, which lie on the host, on `device`; on a CPU the same tensor.

    A GPU copies them after what it was asked for before, and nobody waits. Memory made by `staging` is copied from
    there, any other is brought there first.
    """
    if device.type == "cpu":
        return values
    if not values.is_pinned():
        values = staging(tuple(values.shape), values.dtype, device).copy_(values)
    return values.to(device, non_blocking=True)


def _cuda() -> ModuleType:
    return importlib.import_module("sgrt_kernels.cuda")
