"""Steps that only decode, recorded once per size and replayed: a GPU is then not kept waiting for launches.

A recorded step reads its integers from one piece of memory and leaves its logits in another, always the same, and so
every step of its size can be replayed. Sizes are rounded up: sequences to `bucket`, columns of the page table to powers
of two. The rows between are padding: a context of one token in the pool's scratch page.

    step of 5 sequences      [ 0 1 2 3 4 ][ padding ]      runs the graph of 6
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool
from sgrt.engine.packing import pack, size_of
from sgrt.engine.plan import Plan
from sgrt.engine.step_arrays import HostArrays, StepLayout, StepSize
from sgrt.model.batch import Batch
from sgrt_kernels.buckets import bucket, power_bucket
from sgrt_kernels.device import GraphCapture, staging

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
        is_batch_invariant: bool = False,
    ) -> None:
        """Larger steps are left to the caller; `is_batch_invariant` is said to the model with every batch. All recorded steps share memory for their integers and logits."""
        self._model = model
        self._pool = pool
        self._capture = capture
        self._is_batch_invariant = is_batch_invariant
        self._max_sequences = bucket(max_sequences)
        self._max_pages = power_bucket(-(-max_context_tokens // pool.page_tokens), _FEWEST_PAGES)
        words = StepLayout(self._size(self._max_sequences, self._max_pages)).num_words
        self._memory = torch.zeros(words, dtype=torch.int64, device=pool.device)
        self._logits = torch.zeros(
            (self._max_sequences, vocabulary_tokens), dtype=torch.float32, device=pool.device
        )
        self._graphs: dict[tuple[int, int], _Graph] = {}

    @property
    def num_graphs(self) -> int:
        """Sizes recorded so far."""
        return len(self._graphs)

    def run(self, plan: Plan) -> Tensor | None:
        """Logits [spans, vocabulary] float32, good until the next run; None for a step that is not recorded.

        Recorded are steps that only decode, within the sizes given.
        """
        if not plan.spans or not plan.is_decode:
            return None
        exact = size_of(plan, self._pool.page_tokens, is_sealed=False)
        sequences, pages = bucket(exact.sequences), power_bucket(exact.pages, _FEWEST_PAGES)
        if sequences > self._max_sequences or pages > self._max_pages:
            return None
        graph = self._graphs.get((sequences, pages))
        layout = StepLayout(self._size(sequences, pages)) if graph is None else graph.layout
        self._fill(layout, plan)
        if graph is None:
            graph = self._record(layout)
            self._graphs[sequences, pages] = graph
        graph.replay()
        return self._logits[: exact.sequences]

    def _record(self, layout: StepLayout) -> _Graph:
        batch = layout.batch(
            self._memory,
            self._pool.layers,
            num_single=layout.size.sequences,
            is_batch_invariant=self._is_batch_invariant,
        )
        logits = self._logits[: layout.size.sequences]

        def step() -> None:
            with torch.inference_mode():
                logits.copy_(self._model.forward(batch))

        return _Graph(layout=layout, replay=self._capture.capture(step))

    def _fill(self, layout: StepLayout, plan: Plan) -> None:
        """Bring the step's integers, padding included, to where the recorded step reads them."""
        pool = self._pool
        memory = staging(layout.num_words, torch.int64, pool.device).zero_()
        arrays = layout.host_arrays(memory.numpy())
        pack(plan, arrays, pool.page_tokens, pool.first_exact_page)
        _pad(arrays, len(plan.spans), pool)
        self._memory[: layout.num_words].copy_(memory, non_blocking=True)

    def _size(self, sequences: int, pages: int) -> StepSize:
        is_sealed = self._pool.sealed_dtype is not None
        return StepSize(
            tokens=sequences,
            sequences=sequences,
            pages=pages,
            rows=sequences,
            seals=sequences if is_sealed else 0,
            own_pages=1 if is_sealed else 0,
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
