"""The integers of one forward pass, all in one piece of memory, so that they reach a GPU in one copy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt_kernels.layout import PagedLayer, PageSeals
from sgrt_kernels.ops.tree_attention import TreePlan

Wide = TypeVar("Wide")
Narrow = TypeVar("Narrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """The numbers that fix the shapes of a pass."""

    tokens: int
    sequences: int
    pages: int  # columns of the page table
    rows: int  # of logits
    seals: int = 0
    own_pages: int = 0  # columns; 0 where pages are not sealed
    singles: int = 0  # sequences of one token, before all others
    items: int = 0  # of the tree that these share, padding included; 0 where they are decoded one by one
    rows_per_item: int = 0


class Place(NamedTuple):
    """Where an array lies in memory of 64-bit words."""

    first: int
    words: int
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepArrays(Generic[Wide, Narrow]):
    """The arrays of a pass, of 64 bits and of 32; meanings are those of Batch, PageSeals and TreePlan."""

    token_ids: Wide
    positions: Wide
    slots: Wide
    logit_rows: Wide
    sources: Wide
    targets: Wide
    query_starts: Narrow
    context_lengths: Narrow
    num_seals: Narrow
    page_table: Narrow
    own_pages: Narrow
    items: Narrow
    item_rows: Narrow
    first_pages: Narrow
    merge_starts: Narrow
    merge_partials: Narrow


HostArrays = StepArrays[NDArray[np.int64], NDArray[np.int32]]


class StepLayout:
    """Where the arrays of a pass of some size lie in memory of 64-bit words."""

    __slots__ = ("num_words", "size")

    def __init__(self, size: StepSize) -> None:
        self.size = size
        last = self._arrays(lambda place: place, lambda place: place).merge_partials
        self.num_words = last.first + last.words

    def host_arrays(self, memory: NDArray[np.int64]) -> HostArrays:
        """Views of `memory` [num_words], to be filled."""

        def narrow(place: Place) -> NDArray[np.int32]:
            words = memory[place.first : place.first + place.words].view(np.int32)
            return words[: math.prod(place.shape)].reshape(place.shape)

        return self._arrays(
            lambda place: memory[place.first : place.first + place.words].reshape(place.shape), narrow
        )

    def batch(self, memory: Tensor, layers: tuple[PagedLayer, ...], *, is_batch_invariant: bool) -> Batch:
        """The batch whose tensors are views of `memory` [at least num_words] int64."""

        def narrow(place: Place) -> Tensor:
            words = memory[place.first : place.first + place.words].view(torch.int32)
            return words[: math.prod(place.shape)].view(place.shape)

        arrays = self._arrays(
            lambda place: memory[place.first : place.first + place.words].view(place.shape), narrow
        )
        seals = PageSeals(
            sources=arrays.sources, targets=arrays.targets, count=arrays.num_seals, own_pages=arrays.own_pages
        )
        tree = TreePlan(
            items=arrays.items,
            rows=arrays.item_rows,
            first_pages=arrays.first_pages,
            merge_starts=arrays.merge_starts,
            merge_partials=arrays.merge_partials,
        )
        return Batch(
            token_ids=arrays.token_ids,
            positions=arrays.positions,
            slots=arrays.slots,
            logit_rows=arrays.logit_rows,
            query_starts=arrays.query_starts,
            context_lengths=arrays.context_lengths,
            page_table=arrays.page_table,
            layers=layers,
            seals=seals if self.size.own_pages else None,
            num_single=self.size.singles,
            tree=tree if self.size.items else None,
            is_batch_invariant=is_batch_invariant,
        )

    def _arrays(
        self, as_wide: Callable[[Place], Wide], as_narrow: Callable[[Place], Narrow]
    ) -> StepArrays[Wide, Narrow]:
        """The arrays one after the other."""
        size, end = self.size, 0

        def place(shape: tuple[int, ...], per_word: int) -> Place:
            nonlocal end
            first, words = end, -(-math.prod(shape) // per_word)
            end += words + words % 2  # kernels are compiled for addresses that 16 divides
            return Place(first, words, shape)

        def wide(*shape: int) -> Wide:
            return as_wide(place(shape, 1))

        def narrow(*shape: int) -> Narrow:
            return as_narrow(place(shape, 2))

        in_tree = size.singles if size.items else 0
        return StepArrays(
            token_ids=wide(size.tokens),
            positions=wide(size.tokens),
            slots=wide(size.tokens),
            logit_rows=wide(size.rows),
            sources=wide(size.seals),
            targets=wide(size.seals),
            query_starts=narrow(size.sequences + 1),
            context_lengths=narrow(size.sequences),
            num_seals=narrow(1),
            page_table=narrow(size.sequences, size.pages),
            own_pages=narrow(size.sequences, size.own_pages),
            items=narrow(size.items, 3),
            item_rows=narrow(size.items, size.rows_per_item),
            first_pages=narrow(in_tree),
            merge_starts=narrow(in_tree + 1 if in_tree else 0),
            merge_partials=narrow(size.items * size.rows_per_item),
        )
