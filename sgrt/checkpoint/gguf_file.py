"""A GGUF file: its header and, on demand, its tensors."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TypeVar

import numpy as np
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize
from numpy.typing import NDArray

from sgrt.checkpoint.gguf_header import GgufHeader, TensorRecord, Value, parse_header
from sgrt.errors import CorruptModel, UnsupportedModel

_T = TypeVar("_T", int, str, bool)
# The package dequantizes 16 rows at a time: rows of this many values keep its scratch memory in the cache.
_ROW_VALUES = 4096
_PASS_VALUES = 1 << 22  # values at a time, so that no second copy of a large tensor is made


class GgufFile:
    """A memory-mapped GGUF file. Nothing but the header is read before a tensor is asked for."""

    __slots__ = ("_bytes", "header", "path")

    def __init__(self, path: Path) -> None:
        """Open `path` and check its header.

        Raises:
            CorruptModel: the file is truncated or contradicts itself.
            UnsupportedModel: its version or a tensor's type is unknown.
        """
        self.path = path
        if path.stat().st_size == 0:
            raise CorruptModel(f"{path}: the file is empty")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.header: GgufHeader = parse_header(path, memoryview(mapped))
        self._bytes: NDArray[np.uint8] = np.frombuffer(mapped, dtype=np.uint8)

    def blocks(self, record: TensorRecord) -> NDArray[np.uint8]:
        """The stored bytes, [rows, bytes per row]; a read-only view of the file."""
        flat = self._bytes[record.offset : record.offset + record.size]
        return flat.reshape(-1, record.row_bytes)

    def values(self, blocks: NDArray[np.uint8], record: TensorRecord) -> NDArray[np.float32]:
        """The numbers that `blocks` (some rows of the tensor) stand for, [rows, columns].

        Raises:
            UnsupportedModel: the `gguf` package cannot dequantize this type.
        """
        try:
            return _dequantized(blocks, record).reshape(blocks.shape[0], record.shape[-1])
        except NotImplementedError as error:
            raise UnsupportedModel(
                f"{self.path}: tensor {record.name!r} has type {record.type.name}, which cannot be dequantized"
            ) from error

    def string(self, key: str, default: str | None = None) -> str:
        """A text of the metadata; errors as for `integer`."""
        return self._typed(key, str, default)

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number of the metadata.

        Raises:
            CorruptModel: it is missing (and has no default) or is something else.
        """
        return self._typed(key, int, default)

    def real(self, key: str, default: float | None = None) -> float:
        """A number of the metadata; errors as for `integer`."""
        value = self.header.metadata.get(key, default)
        if isinstance(value, int | float):
            return float(value)
        raise self._bad(key, "a number", value)

    def flag(self, key: str, default: bool) -> bool:
        """A yes or no of the metadata."""
        return self._typed(key, bool, default)

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; empty when the file has none."""
        return tuple(item for item in self._items(key) if isinstance(item, int))

    def reals(self, key: str) -> tuple[float, ...]:
        """A list of numbers; empty when the file has none."""
        return tuple(float(item) for item in self._items(key) if isinstance(item, int | float))

    def strings(self, key: str) -> tuple[str, ...]:
        """A list of texts; empty when the file has none."""
        return tuple(item for item in self._items(key) if isinstance(item, str))

    def _items(self, key: str) -> list[Value]:
        value = self.header.metadata.get(key, [])
        if isinstance(value, list):
            return value
        raise self._bad(key, "a list", value)

    def _typed(self, key: str, kind: type[_T], default: _T | None) -> _T:
        value = self.header.metadata.get(key, default)
        if isinstance(value, kind):
            return value
        raise self._bad(key, kind.__name__, value)

    def _bad(self, key: str, expected: str, value: object) -> CorruptModel:
        found = "is missing" if value is None else f"is {value!r:.80}"
        return CorruptModel(f"{self.path}: metadata {key!r} {found}, expected {expected}")


def _dequantized(blocks: NDArray[np.uint8], record: TensorRecord) -> NDArray[np.float32]:
    """The numbers in `blocks`, flat. Blocks stand alone, so they are cut into rows of the fastest length."""
    block, block_bytes = GGML_QUANT_SIZES[record.type]
    flat = np.ascontiguousarray(blocks).reshape(-1, block_bytes)
    out = np.empty(flat.shape[0] * block, dtype=np.float32)
    blocks_per_row = max(_ROW_VALUES // block, 1)
    blocks_per_pass = max(_PASS_VALUES // block // blocks_per_row, 1) * blocks_per_row
    for start in range(0, flat.shape[0], blocks_per_pass):
        part = flat[start : start + blocks_per_pass]
        target = out[start * block : (start + part.shape[0]) * block]
        whole = part.shape[0] // blocks_per_row * blocks_per_row
        if whole:
            rows = part[:whole].reshape(-1, blocks_per_row * block_bytes)
            target[: whole * block] = dequantize(rows, record.type).reshape(-1)
        if whole < part.shape[0]:
            target[whole * block :] = dequantize(part[whole:], record.type).reshape(-1)
    return out
