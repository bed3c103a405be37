"""Packed token masks: bit `t % 32` of word `t // 32` says whether token `t` is allowed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

TokenMask = NDArray[np.uint32]


def num_mask_words(vocabulary_size: int) -> int:
    """Words of a mask row over `vocabulary_size` tokens."""
    return (vocabulary_size + 31) // 32


def empty_mask(vocabulary_size: int) -> TokenMask:
    """A row that allows nothing."""
    return np.zeros(num_mask_words(vocabulary_size), np.uint32)


def set_tokens(mask: TokenMask, tokens: NDArray[np.int32] | Iterable[int]) -> None:
    """Allow `tokens` in `mask`, in place."""
    ids = tokens if isinstance(tokens, np.ndarray) else np.fromiter(tokens, np.int32)
    if ids.size:
        np.bitwise_or.at(mask, ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))


def is_allowed(mask: TokenMask, token: int) -> bool:
    """Whether `mask` allows `token`."""
    return bool((int(mask[token >> 5]) >> (token & 31)) & 1)


def allowed_tokens(mask: TokenMask) -> list[int]:
    """The tokens `mask` allows, ascending."""
    bits = np.unpackbits(mask.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]
