"""Sizes that shapes are rounded up to, so that few graphs and few compiled kernels serve all of them."""

from __future__ import annotations


def bucket(count: int, smallest: int = 1) -> int:
    """The smallest bucket of at least `count`: powers of two and the steps half way between, from `smallest` on.

    smallest: a power of two.
    """
    size = smallest
    while size < count:
        is_power = size & (size - 1) == 0
        size = max(size + 1, size * 3 // 2 if is_power else size * 4 // 3)
    return size


def previous_bucket(size: int) -> int:
    """The bucket below `size`, which is one; 0 below the smallest."""
    if size < 4:
        return size - 1
    is_power = size & (size - 1) == 0
    return size * 3 // 4 if is_power else size * 2 // 3


def power_bucket(count: int, smallest: int = 1) -> int:
    """The smallest power of two of at least `count` and `smallest`, which is one."""
    return max(smallest, 1 << (count - 1).bit_length())
