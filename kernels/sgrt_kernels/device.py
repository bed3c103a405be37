"""The one place that knows which devices there are: everything that touches CUDA or Triton is reached from here.

Importing this module imports torch alone. Triton is imported when the first tensor on a GPU asks for a kernel.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType

import torch
from torch import Tensor


class KernelBackend(StrEnum):
    """Where an op's kernel runs."""

    REFERENCE = "reference"
    TRITON = "triton"


class UnsupportedDeviceError(RuntimeError):
    """A tensor lies on a device for which there are no kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProperties:
    """What kernels need to know of a GPU to choose their configurations."""

    arch: int  # compute capability, 90 for 9.0
    multiprocessors: int
    shared_bytes: int  # shared memory one block may ask for


def kernel_backend(tensor: Tensor) -> KernelBackend:
    """The backend that serves `tensor`'s device: Triton on CUDA, the reference on a CPU.

    Raises UnsupportedDeviceError for any other device.
    """
    match tensor.device.type:
        case "cpu":
            return KernelBackend.REFERENCE
        case "cuda":
            return KernelBackend.TRITON
        case other:
            raise UnsupportedDeviceError(
                f"no kernels for device '{other}': move the tensors to 'cpu' or 'cuda' (got shape {tuple(tensor.shape)})"
            )


def triton_kernels(op: str) -> ModuleType:
    """The Triton module of op `op`; imports Triton, so call it for tensors on a GPU only."""
    # fused multiply-adds: half the instructions of a dequantization; Triton asks for the choice to be made
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    return importlib.import_module(f"sgrt_kernels.ops.{op}.triton")


def gpu_properties(device: torch.device) -> GpuProperties:
    """Properties of the CUDA device `device`."""
    found = torch.cuda.get_device_properties(device)
    return GpuProperties(
        arch=found.major * 10 + found.minor,
        multiprocessors=found.multi_processor_count,
        shared_bytes=int(getattr(found, "shared_memory_per_block_optin", 48 * 1024)),
    )
