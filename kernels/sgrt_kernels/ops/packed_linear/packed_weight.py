"""Blocks of ggml's quantized types taken apart: integers, scales and minima of groups of 32 columns.

A weight is `q * scale + minimum`. The layouts of the blocks are those of ggml (ggml-common.h, MIT license).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

GROUP = 32  # columns of a group

_Bytes = NDArray[np.uint8]
_Floats = NDArray[np.float32]
_Scalar = TypeVar("_Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedWeight:
    """A matrix [rows, columns] in groups of 32 columns."""

    q: Tensor  # [groups, rows, 32] int8
    scales: Tensor  # [groups, halves, rows] float32; two halves of 16 columns have scales of their own in Q6_K alone
    minima: Tensor | None  # [groups, rows] float32; None: all zero

    @property
    def rows(self) -> int:
        """Output channels."""
        return self.q.shape[1]

    @property
    def columns(self) -> int:
        """Input channels."""
        return self.q.shape[0] * GROUP

    def dequantized(self) -> Tensor:
        """The matrix as float32, [rows, columns]: each product and each sum rounded."""
        groups, rows, _ = self.q.shape
        halves = self.scales.shape[1]
        q = self.q.to(torch.float32).view(groups, rows, halves, GROUP // halves)
        values = (q * self.scales.transpose(1, 2)[..., None]).view(groups, rows, GROUP)
        if self.minima is not None:
            values = values + self.minima[..., None]
        return values.transpose(0, 1).reshape(rows, self.columns)

    def rows_of(self, indices: Tensor) -> Tensor:
        """Some rows as float32, [indices, columns]."""
        picked = PackedWeight(
            q=self.q[:, indices],
            scales=self.scales[:, :, indices],
            minima=None if self.minima is None else self.minima[:, indices],
        )
        return picked.dequantized()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a type's blocks hold, per [rows, groups]."""

    q: NDArray[np.int8]  # [rows, groups, 32]
    scales: _Floats  # [rows, groups] or [rows, groups, 2]
    minima: _Floats | None = None  # [rows, groups]


def take_apart(type_name: str, blocks: _Bytes) -> PackedWeight:
    """The weight in blocks [rows, bytes per row] of the type. Raises ValueError for an unknown type."""
    if type_name not in _READERS:
        raise ValueError(f"no packed product for {type_name}; known are {', '.join(_READERS)}")
    block_bytes, read = _READERS[type_name]
    parts = read(np.ascontiguousarray(blocks).reshape(blocks.shape[0], -1, block_bytes))
    scales = parts.scales if parts.scales.ndim == 3 else parts.scales[..., None]
    return PackedWeight(
        q=torch.from_numpy(np.ascontiguousarray(parts.q.transpose(1, 0, 2))),
        scales=torch.from_numpy(np.ascontiguousarray(scales.transpose(1, 2, 0))),
        minima=None if parts.minima is None else torch.from_numpy(np.ascontiguousarray(parts.minima.T)),
    )


def _half(block: _Bytes, at: int) -> _Floats:
    """The f16 at a byte of every block, as float32."""
    return np.ascontiguousarray(block[..., at : at + 2]).view(np.float16)[..., 0].astype(np.float32)


def _nibbles(packed: _Bytes) -> _Bytes:
    """Low halves, then high halves."""
    return np.concatenate((packed & np.uint8(15), packed >> np.uint8(4)), axis=-1)


def _fifth_bits(packed: _Bytes) -> _Bytes:
    """Bit `i` of four bytes, as 16 or 0, for `i` from 0 to 31."""
    return (np.unpackbits(packed, axis=-1, bitorder="little") << 4).astype(np.uint8)


def _signed(q: _Bytes, offset: int) -> NDArray[np.int8]:
    return (q.astype(np.int16) - offset).astype(np.int8)


def _q4_0(block: _Bytes) -> _Parts:
    return _Parts(q=_signed(_nibbles(block[..., 2:]), 8), scales=_half(block, 0))


def _q4_1(block: _Bytes) -> _Parts:
    return _Parts(q=_signed(_nibbles(block[..., 4:]), 0), scales=_half(block, 0), minima=_half(block, 2))


def _q5_0(block: _Bytes) -> _Parts:
    q = _nibbles(block[..., 6:]) | _fifth_bits(block[..., 2:6])
    return _Parts(q=_signed(q, 16), scales=_half(block, 0))


def _q5_1(block: _Bytes) -> _Parts:
    q = _nibbles(block[..., 8:]) | _fifth_bits(block[..., 4:8])
    return _Parts(q=_signed(q, 0), scales=_half(block, 0), minima=_half(block, 2))


def _q8_0(block: _Bytes) -> _Parts:
    return _Parts(q=np.ascontiguousarray(block[..., 2:]).view(np.int8), scales=_half(block, 0))


def _six_bit_scales(packed: _Bytes) -> tuple[_Floats, _Floats]:
    """Scales and minima of the eight groups of a Q4_K or Q5_K block."""
    low, high, top = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate((low & 63, (top & 15) | (low >> 6 << 4)), axis=-1)
    minima = np.concatenate((high & 63, (top >> 4) | (high >> 6 << 4)), axis=-1)
    return scales.astype(np.float32), minima.astype(np.float32)


def _by_groups(values: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """[rows, blocks, 8, ...] as [rows, groups, ...]."""
    return values.reshape(values.shape[0], -1, *values.shape[3:])


def _four_and_five_bits(block: _Bytes, nibbles: _Bytes, fifth: _Bytes | None) -> _Parts:
    q = np.stack((nibbles & np.uint8(15), nibbles >> np.uint8(4)), axis=3)  # [rows, blocks, 4, 2, 32]
    q = q.reshape(*q.shape[:2], 8, GROUP)
    if fifth is not None:
        bits = fifth[:, :, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)
        q = q | (bits << np.uint8(4))
    scales, minima = _six_bit_scales(block[..., 4:16])
    return _Parts(
        q=_signed(_by_groups(q), 0),
        scales=_by_groups(_half(block, 0)[..., None] * scales),
        minima=_by_groups(-(_half(block, 2)[..., None] * minima)),
    )


def _q4_k(block: _Bytes) -> _Parts:
    return _four_and_five_bits(block, block[..., 16:].reshape(*block.shape[:2], 4, GROUP), None)


def _q5_k(block: _Bytes) -> _Parts:
    return _four_and_five_bits(block, block[..., 48:].reshape(*block.shape[:2], 4, GROUP), block[..., 16:48])


def _q6_k(block: _Bytes) -> _Parts:
    low = block[..., :128].reshape(*block.shape[:2], 2, 2, GROUP)
    low = np.stack(
        (low & np.uint8(15), low >> np.uint8(4)), axis=3
    )  # [rows, blocks, half, low or high, 2, 32]
    high = block[..., 128:192].reshape(*block.shape[:2], 2, 1, GROUP)
    shifts = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(4, 1)
    high = (high >> shifts & np.uint8(3)) << np.uint8(4)  # [rows, blocks, half, quarter, 32]
    q = low.reshape(high.shape) | high
    own = np.ascontiguousarray(block[..., 192:208]).view(np.int8).astype(np.float32)
    scales = _half(block, 208)[..., None] * own  # [rows, blocks, 16]
    return _Parts(
        q=_signed(q.reshape(q.shape[0], -1, GROUP), 32), scales=scales.reshape(scales.shape[0], -1, 2)
    )


_READERS: dict[str, tuple[int, Callable[[_Bytes], _Parts]]] = {
    "Q4_0": (18, _q4_0),
    "Q4_1": (20, _q4_1),
    "Q5_0": (22, _q5_0),
    "Q5_1": (24, _q5_1),
    "Q8_0": (34, _q8_0),
    "Q4_K": (144, _q4_k),
    "Q5_K": (176, _q5_k),
    "Q6_K": (210, _q6_k),
}
