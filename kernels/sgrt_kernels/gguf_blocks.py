"""Blocks of ggml's quantized types as numbers, in plain torch: on whatever device their bytes lie.

The layouts of the blocks are those of ggml (ggml-common.h, MIT license). Every product and every sum is rounded on its own,
so all devices give the numbers that the `gguf` package gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor

_ROWS_BYTES = 64 << 20  # of blocks taken apart at once: what lies between takes some times as much


def dequantized(type_name: str, blocks: Tensor) -> Tensor:
    """What `blocks` [rows, bytes per row] uint8 stand for, [rows, columns] float32, on the same device.

    Raises ValueError for a type that is not one of BLOCK_TYPES.
    """
    if type_name not in BLOCK_TYPES:
        raise ValueError(f"no blocks of type {type_name}; known are {', '.join(BLOCK_TYPES)}")
    block_bytes, columns, read = BLOCK_TYPES[type_name]
    rows, row_bytes = blocks.shape
    out = torch.empty((rows, row_bytes // block_bytes * columns), dtype=torch.float32, device=blocks.device)
    step = max(1, _ROWS_BYTES // row_bytes)
    for first in range(0, rows, step):
        part = blocks[first : first + step]
        out[first : first + step] = read(part.reshape(-1, block_bytes)).reshape(len(part), -1)
    return out


def _half(blocks: Tensor, at: int) -> Tensor:
    """The f16 at a byte of every block, [blocks, 1] float32."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).to(torch.float32)


def _nibbles(packed: Tensor) -> Tensor:
    """Low halves, then high halves."""
    return torch.cat((packed & 15, packed >> 4), dim=-1)


def _fifth_bits(packed: Tensor) -> Tensor:
    """Bit `i` of four bytes, as 16 or 0, for `i` from 0 to 31."""
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return ((packed[..., None] >> shifts) & 1).flatten(-2) << 4


def _q4_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 2:]).to(torch.float32) - 8)


def _q4_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * _nibbles(blocks[:, 4:]) + _half(blocks, 2)


def _q5_0(blocks: Tensor) -> Tensor:
    q = _nibbles(blocks[:, 6:]) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (q.to(torch.float32) - 16)


def _q5_1(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * (_nibbles(blocks[:, 8:]) | _fifth_bits(blocks[:, 4:8])) + _half(blocks, 2)


def _q8_0(blocks: Tensor) -> Tensor:
    return _half(blocks, 0) * blocks[:, 2:].view(torch.int8)


def _q4_k(blocks: Tensor) -> Tensor:
    return _four_and_five_bits(blocks, blocks[:, 16:], None)


def _q5_k(blocks: Tensor) -> Tensor:
    return _four_and_five_bits(blocks, blocks[:, 48:], blocks[:, 16:48])


def _four_and_five_bits(blocks: Tensor, packed: Tensor, fifth: Tensor | None) -> Tensor:
    """Eight groups of 32: nibbles by pairs of groups, fifth bits by bit of a byte, scales and minima of six bits."""
    nibbles = packed.reshape(-1, 4, 1, 32)
    q = torch.cat((nibbles & 15, nibbles >> 4), dim=2).view(-1, 8, 32)
    if fifth is not None:
        shifts = torch.arange(8, dtype=torch.uint8, device=blocks.device)[:, None]
        q = q | (((fifth[:, None, :] >> shifts) & 1) << 4)
    low, high, top = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    scales = torch.cat((low & 63, (top & 15) | ((low >> 6) << 4)), dim=1)
    minima = torch.cat((high & 63, (top >> 4) | ((high >> 6) << 4)), dim=1)
    scales, minima = _half(blocks, 0) * scales, _half(blocks, 2) * minima
    return scales[..., None] * q - minima[..., None]


def _q6_k(blocks: Tensor) -> Tensor:
    """Sixteen groups of 16: four low bits and two high ones of each element, scales of eight bits."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    low = torch.cat((low & 15, low >> 4), dim=2).view(-1, 2, 4, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8, device=blocks.device)[:, None]
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3
    q = (low | (high << 4)).to(torch.float32) - 32
    scales = _half(blocks, 208) * blocks[:, 192:208].view(torch.int8)
    return scales[..., None] * q.view(-1, 16, 16)


# type: bytes of a block, numbers in it, how it is read
BLOCK_TYPES: Final[Mapping[str, tuple[int, int, Callable[[Tensor], Tensor]]]] = MappingProxyType(
    {
        "Q4_0": (18, 32, _q4_0),
        "Q4_1": (20, 32, _q4_1),
        "Q5_0": (22, 32, _q5_0),
        "Q5_1": (24, 32, _q5_1),
        "Q8_0": (34, 32, _q8_0),
        "Q4_K": (144, 256, _q4_k),
        "Q5_K": (176, 256, _q5_k),
        "Q6_K": (210, 256, _q6_k),
    }
)
