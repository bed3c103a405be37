"""How kernels read the bytes of sealed pages on the device they run on."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from sgrt_kernels.device import gpu_properties
from sgrt_kernels.layout import SealedPages

CodeKind = Literal["int8", "fp8", "soft_fp8"]
FIRST_FP8_ARCH = 89


def code_kind(sealed: SealedPages) -> CodeKind:
    """int8, float8 by hardware conversion, or float8 by bit moves where the GPU has no such conversion."""
    if sealed.keys.dtype == torch.int8:
        return "int8"
    return "fp8" if has_float8(sealed.keys.device) else "soft_fp8"


def has_float8(device: torch.device) -> bool:
    """Whether kernels on `device` convert to and from float8_e4m3fn in hardware, or are interpreted."""
    return device.type != "cuda" or gpu_properties(device).arch >= FIRST_FP8_ARCH


def codes(pages: Tensor, kind: CodeKind) -> Tensor:
    """`pages` in the dtype that kernels of `kind` load."""
    return pages.view(torch.uint8) if kind == "soft_fp8" else pages
