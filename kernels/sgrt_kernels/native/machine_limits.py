"""What this machine can do at most, measured: the yardsticks for how well the kernels use it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass

from sgrt_kernels.native.weights import ThreadTeam

_READ_BYTES = 256 << 20  # more than any cache holds
_ROUNDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLimits:
    """Peaks of one team of threads."""

    read_bytes_per_s: float  # from memory, over 2 MiB pages
    multiplies_per_s: float  # int8 multiply-accumulates


def measure_limits(team: ThreadTeam, *, repeats: int = 5) -> MachineLimits:
    """Measure both, best of `repeats`; takes about half a second and 256 MiB for the while."""
    library = team.library
    arena = library.sgrt_arena_create(_READ_BYTES)
    if arena is None:
        raise MemoryError(f"cannot map {_READ_BYTES >> 20} MiB to measure the memory with")
    try:
        data = library.sgrt_arena_data(arena)
        ctypes.memset(data, 1, _READ_BYTES)
        read_s = min(
            _seconds(lambda: library.sgrt_read_all(team.handle, data, _READ_BYTES)) for _ in range(repeats)
        )
    finally:
        library.sgrt_arena_destroy(arena)
    count = 0

    def multiply() -> None:
        nonlocal count
        count = library.sgrt_multiply_many(team.handle, _ROUNDS)

    multiply_s = min(_seconds(multiply) for _ in range(repeats))
    return MachineLimits(read_bytes_per_s=_READ_BYTES / read_s, multiplies_per_s=count / multiply_s)


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
