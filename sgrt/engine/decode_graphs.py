"""Steps that only decode, recorded once per size and replayed: a GPU is then not kept waiting for launches.

A recorded step reads its integers from one piece of memory and leaves its logits in another, always the same, and so
every step of its size can be replayed. Sizes are rounded up: sequences to `bucket`, columns of the page table to powers
of two, items of the tree that sequences share to `slots_for`. The rows between are padding: a context of one token in the pool's scratch page.

    step of 5 sequences      [ 0 1 2 3 4 ][ padding ]      runs the graph of 6
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool
from sgrt.engine.packing import pack, size_of
from sgrt.engine.step_arrays import HostArrays, StepLayout, StepSize
from sgrt.model.batch import Batch
from sgrt.model.native_step import StepNumbers
from sgrt_kernels.buckets import bucket, power_bucket, previous_bucket
from sgrt_kernels.device import GraphCapture, staging
from sgrt_kernels.ops.tree_attention import PlannedTree
from sgrt_kernels.ops.tree_attention.plan import MAX_ITEMS, slots_for

_FEWEST_PAGES = 16


class CausalModel(Protocol):
    """What running a plan needs of a model: logits of the wanted rows of a batch, float32."""

    def forward(self, batch: Batch) -> Tensor:
        """Logits [rows, vocabulary] float32."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Graph:
    layout: StepLayout
    replay: Callable[[], None]


class DecodeGraphs:
    """The recorded steps of a model over a pool with a scratch page, made when a size is first met."""

    def __init__(
        self,
        model: CausalModel,
        pool: KVPool,
        capture: GraphCapture,
        *,
        vocabulary_tokens: int,
        max_sequences: int,
        max_context_tokens: int,
        rows_per_item: int = 1,
        is_batch_invariant: bool = False,
    ) -> None:
        """Larger steps are left to the caller; `is_batch_invariant` is said to the model with every batch.

        `rows_per_item`: of the trees that steps may come with. All recorded steps share memory for their integers and
        logits.
        """
        self._model = model
        self._pool = pool
        self._capture = capture
        self._is_batch_invariant = is_batch_invariant
        self._max_sequences = bucket(max_sequences)
        self._max_pages = power_bucket(-(-max_context_tokens // pool.page_tokens), _FEWEST_PAGES)
        self._rows_per_item = rows_per_item
        largest = self._size(self._max_sequences, self._max_pages, slots_for(MAX_ITEMS))
        words = StepLayout(largest).num_words
        self._memory = torch.zeros(words, dtype=torch.int64, device=pool.device)
        self._logits = torch.zeros(
            (self._max_sequences, vocabulary_tokens), dtype=torch.float32, device=pool.device
        )
        self._graphs: dict[StepSize, _Graph] = {}

    @property
    def num_graphs(self) -> int:
        """Sizes recorded so far."""
        return len(self._graphs)

    def run(self, numbers: StepNumbers, tree: PlannedTree | None = None) -> Tensor | None:
        """Logits [sequences, vocabulary] float32, good until the next run; None for a step larger than the sizes given.

        `numbers`: of a step that only decodes.
        """
        pool, sequences = self._pool, len(numbers.context_lengths)
        exact = size_of(numbers, pool.page_tokens, tree)
        size = self._size(bucket(sequences), power_bucket(exact.pages, _FEWEST_PAGES), exact.items)
        if not 0 < size.sequences <= self._max_sequences or size.pages > self._max_pages:
            return None
        graph = self._graphs.get(size)
        layout = StepLayout(size) if graph is None else graph.layout
        memory = staging(layout.num_words, torch.int64, pool.device).zero_()
        arrays = layout.host_arrays(memory.numpy())
        pack(numbers, arrays, tree)
        _pad(arrays, sequences, pool)
        self._memory[: layout.num_words].copy_(memory, non_blocking=True)
        if graph is None:
            graph = self._record(layout)
        graph.replay()
        return self._logits[:sequences]

    def record_all(self) -> None:
        """Record every size of flat steps, and the smallest trees: work at the start that requests would wait for."""
        memory = torch.zeros(len(self._memory), dtype=torch.int64)
        for size in self._sizes():
            layout = StepLayout(size)
            arrays = layout.host_arrays(memory[: layout.num_words].zero_().numpy())
            _pad(arrays, 0, self._pool)
            self._memory[: layout.num_words].copy_(memory[: layout.num_words])
            if size not in self._graphs:
                self._record(layout)

    def _sizes(self) -> Iterator[StepSize]:
        """Largest first: the memory of its intermediate results serves those behind it."""
        pages = self._max_pages
        while pages >= _FEWEST_PAGES:
            sequences = self._max_sequences
            while sequences > 0:
                yield self._size(sequences, pages, 0)
                if self._rows_per_item > 1 and sequences > 1:
                    yield self._size(sequences, pages, slots_for(1))
                sequences = previous_bucket(sequences)
            pages //= 2

    def _record(self, layout: StepLayout) -> _Graph:
        batch = layout.batch(self._memory, self._pool.layers, is_batch_invariant=self._is_batch_invariant)
        logits = self._logits[: layout.size.sequences]

        def step() -> None:
            with torch.inference_mode():
                logits.copy_(self._model.forward(batch))

        graph = _Graph(layout=layout, replay=self._capture.capture(step))
        self._graphs[layout.size] = graph
        return graph

    def _size(self, sequences: int, pages: int, items: int) -> StepSize:
        is_sealed = self._pool.sealed_dtype is not None
        return StepSize(
            tokens=sequences,
            sequences=sequences,
            pages=pages,
            rows=sequences,
            seals=sequences if is_sealed else 0,
            own_pages=1 if is_sealed else 0,
            singles=sequences,
            items=items,
            rows_per_item=self._rows_per_item if items else 0,
        )


def _pad(arrays: HostArrays, sequences: int, pool: KVPool) -> None:
    """Behind the first `sequences` rows: a token at position 0 of a scratch page, and scratch pages to seal."""
    padding = len(arrays.token_ids) - sequences
    arrays.slots[sequences:] = pool.exact_scratch_page * pool.page_tokens
    arrays.logit_rows[sequences:] = range(sequences, sequences + padding)
    arrays.query_starts[sequences + 1 :] = range(sequences + 1, sequences + 1 + padding)
    arrays.context_lengths[sequences:] = 1
    arrays.page_table[sequences:, 0] = pool.scratch_page
    if pool.sealed_dtype is not None:
        seals = int(arrays.num_seals[0])
        arrays.own_pages[sequences:] = pool.exact_scratch_page
        arrays.sources[seals:] = pool.exact_scratch_page
        arrays.targets[seals:] = pool.scratch_page
