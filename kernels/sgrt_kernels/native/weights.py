"""Weights in the layout the CPU kernels want, and the threads that work on them."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sgrt_kernels.native.structures import MatrixStruct

# ggml's types that the kernels hold exactly, by the numbers of GGUF files.
BLOCK_TYPES = {
    "F32": 0,
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q5_0": 6,
    "Q5_1": 7,
    "Q8_0": 8,
    "Q4_K": 12,
    "Q5_K": 13,
    "Q6_K": 14,
    "BF16": 30,
}

_ALIGNMENT = 64


def usable_threads() -> int:
    """Processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixShape:
    """What a matrix is before it is packed."""

    type_name: str  # a key of BLOCK_TYPES
    rows: int
    columns: int


class ThreadTeam:
    """Threads of the kernels; a context manager. One caller at a time."""

    def __init__(self, library: ctypes.CDLL, threads: int) -> None:
        self.library = library
        self.threads = threads
        handle = library.sgrt_team_create(threads)
        if handle is None:
            raise MemoryError(f"cannot start {threads} threads")
        self.handle: int | None = handle

    def close(self) -> None:
        """Stop the threads. Closing twice is harmless."""
        if self.handle is not None:
            self.library.sgrt_team_destroy(self.handle)
            self.handle = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class WeightArena:
    """Memory on large pages that holds packed matrices; a context manager.

    Sizes are declared first (`reserve`), then the memory is taken once, then matrices are packed one by one, so
    the peak is the packed weights and one tensor of the file.
    """

    def __init__(self, library: ctypes.CDLL, team: ThreadTeam) -> None:
        self._library = library
        self._team = team
        self._handle: int | None = None
        self._size = 0
        self._places: dict[str, tuple[int, MatrixStruct, int]] = {}

    @property
    def packed_bytes(self) -> int:
        """Bytes of all reserved matrices."""
        return self._size

    def reserve(self, name: str, shape: MatrixShape) -> None:
        """Plan room for a matrix. Raises ValueError where the kernels have no layout for it."""
        kind = ctypes.c_int32()
        size = 0
        if shape.type_name in BLOCK_TYPES:
            size = self._library.sgrt_packed_bytes(
                BLOCK_TYPES[shape.type_name], shape.rows, shape.columns, ctypes.byref(kind)
            )
        if size == 0:
            raise ValueError(f"{name}: no CPU kernel for {shape.type_name} with {shape.columns} columns")
        matrix = MatrixStruct(rows=shape.rows, columns=shape.columns, kind=kind.value)
        self._places[name] = (self._size, matrix, BLOCK_TYPES[shape.type_name])
        self._size += -(-size // _ALIGNMENT) * _ALIGNMENT

    def allocate(self) -> None:
        """Take the memory for all that was reserved."""
        self._handle = self._library.sgrt_arena_create(max(self._size, _ALIGNMENT))
        if self._handle is None:
            raise MemoryError(f"cannot map {self._size} bytes for the weights")
        base = self._library.sgrt_arena_data(self._handle)
        for offset, matrix, _ in self._places.values():
            matrix.data = base + offset

    def pack(self, name: str, blocks: NDArray[np.uint8]) -> None:
        """Fill a reserved matrix from its file's blocks, [rows, bytes per row]; drop a mapped file's pages."""
        _, matrix, block_type = self._places[name]
        if blocks.shape[0] != matrix.rows or blocks.strides[1] != 1:
            raise ValueError(
                f"{name}: blocks of shape {blocks.shape}, expected {matrix.rows} contiguous rows"
            )
        self._library.sgrt_pack(
            self._team.handle, block_type, blocks.ctypes.data, blocks.strides[0], ctypes.byref(matrix)
        )
        if _is_mapped(blocks):
            self._library.sgrt_drop_file_pages(blocks.ctypes.data, blocks.nbytes)

    def matrix(self, name: str) -> MatrixStruct:
        """The packed matrix; its memory is this arena's."""
        return self._places[name][1]

    def close(self) -> None:
        """Give the memory back. Closing twice is harmless."""
        if self._handle is not None:
            self._library.sgrt_arena_destroy(self._handle)
            self._handle = None


def _is_mapped(array: NDArray[np.uint8]) -> bool:
    """Whether the array is a view of a memory-mapped file, whose pages can be read again at any time."""
    owner: object = array
    while owner is not None:
        if isinstance(owner, mmap.mmap):
            return True
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    return False
