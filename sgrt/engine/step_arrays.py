"""The integers of one forward pass, all in one piece of memory, so that they reach a GPU in one copy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt_kernels.layout import PagedLayer, PageSeals

_Place = tuple[int, int, tuple[int, ...]]  # first word, words, shape


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """The numbers that fix the shapes of a pass."""

    tokens: int
    sequences: int
    pages: int  # columns of the page table
    rows: int  # of logits
    seals: int = 0
    own_pages: int = 0  # columns; 0 where pages are not sealed


@dataclass(frozen=True, slots=True, kw_only=True)
class HostArrays:
    """Views to be filled; names, shapes and meanings are those of Batch and PageSeals."""

    token_ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    slots: NDArray[np.int64]
    logit_rows: NDArray[np.int64]
    sources: NDArray[np.int64]
    targets: NDArray[np.int64]
    query_starts: NDArray[np.int32]
    context_lengths: NDArray[np.int32]
    num_seals: NDArray[np.int32]
    page_table: NDArray[np.int32]
    own_pages: NDArray[np.int32]


class StepLayout:
    """Where the arrays of a pass of some size lie in memory of 64-bit words."""

    __slots__ = ("_narrow", "_wide", "num_words", "size")

    def __init__(self, size: StepSize) -> None:
        self.size = size
        self._wide = _placed(
            0, 1, [(size.tokens,), (size.tokens,), (size.tokens,), (size.rows,), (size.seals,), (size.seals,)]
        )
        self._narrow = _placed(
            _end(self._wide),
            2,
            [
                (size.sequences + 1,),
                (size.sequences,),
                (1,),
                (size.sequences, size.pages),
                (size.sequences, size.own_pages),
            ],
        )
        self.num_words = _end(self._narrow)

    def host_arrays(self, memory: NDArray[np.int64]) -> HostArrays:
        """The arrays in `memory` [num_words]."""
        wide = [memory[first : first + words].reshape(shape) for first, words, shape in self._wide]
        narrow = [
            memory[first : first + words].view(np.int32)[: math.prod(shape)].reshape(shape)
            for first, words, shape in self._narrow
        ]
        return HostArrays(
            token_ids=wide[0],
            positions=wide[1],
            slots=wide[2],
            logit_rows=wide[3],
            sources=wide[4],
            targets=wide[5],
            query_starts=narrow[0],
            context_lengths=narrow[1],
            num_seals=narrow[2],
            page_table=narrow[3],
            own_pages=narrow[4],
        )

    def batch(
        self, memory: Tensor, layers: tuple[PagedLayer, ...], *, num_single: int, is_batch_invariant: bool
    ) -> Batch:
        """The batch whose tensors are views of `memory` [at least num_words] int64."""
        wide = [memory[first : first + words].view(shape) for first, words, shape in self._wide]
        narrow = [
            memory[first : first + words].view(torch.int32)[: math.prod(shape)].view(shape)
            for first, words, shape in self._narrow
        ]
        return Batch(
            token_ids=wide[0],
            positions=wide[1],
            slots=wide[2],
            logit_rows=wide[3],
            query_starts=narrow[0],
            context_lengths=narrow[1],
            page_table=narrow[3],
            layers=layers,
            seals=PageSeals(sources=wide[4], targets=wide[5], count=narrow[2], own_pages=narrow[4])
            if self.size.own_pages
            else None,
            num_single=num_single,
            is_batch_invariant=is_batch_invariant,
        )


def _placed(first: int, per_word: int, shapes: list[tuple[int, ...]]) -> tuple[_Place, ...]:
    """Arrays one after the other from word `first` on, `per_word` numbers to a word."""

    def places() -> Iterator[_Place]:
        at = first
        for shape in shapes:
            words = -(-math.prod(shape) // per_word)
            yield at, words, shape
            at += words

    return tuple(places())


def _end(places: tuple[_Place, ...]) -> int:
    first, words, _ = places[-1]
    return first + words
