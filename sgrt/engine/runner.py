"""Running a plan: the seam between the engine's ints and a model's tensors."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool
from sgrt.engine.decode_graphs import CausalModel, DecodeGraphs
from sgrt.engine.packing import num_single, pack, singles_first, size_of
from sgrt.engine.plan import Plan
from sgrt.engine.step_arrays import StepLayout
from sgrt.model.batch import Batch
from sgrt_kernels.device import staging, upload


class Runner(Protocol):
    """Computes a plan. One thread calls it, one plan at a time."""

    @property
    def vocabulary_tokens(self) -> int:
        """Width of the logits."""
        ...

    def run(self, plan: Plan) -> Tensor:
        """Logits [rows, vocabulary] float32: one row per wanted position, in the plan's order, good until the next run.

        A GPU computes them behind the caller's back, and reading them waits: what can be done meanwhile comes before.
        """
        ...


class ModelRunner:
    """A model and the pool its keys and values lie in."""

    def __init__(
        self,
        model: CausalModel,
        pool: KVPool,
        *,
        vocabulary_tokens: int,
        graphs: DecodeGraphs | None = None,
        is_batch_invariant: bool = False,
    ) -> None:
        """With `graphs` steps that only decode are replayed rather than launched kernel by kernel.

        With `is_batch_invariant` a row's numbers on a GPU do not depend on what else is in its batch.
        """
        self._model = model
        self._pool = pool
        self._vocabulary_tokens = vocabulary_tokens
        self._graphs = graphs
        self._is_batch_invariant = is_batch_invariant

    @property
    def vocabulary_tokens(self) -> int:
        """Width of the logits."""
        return self._vocabulary_tokens

    def run(self, plan: Plan) -> Tensor:
        """Copy the plan's pages, then compute its spans in one pass."""
        with torch.inference_mode():
            if plan.copies:
                self._pool.copy_pages([(copy.source, copy.target, copy.num_tokens) for copy in plan.copies])
            if self._graphs is not None and (logits := self._graphs.run(plan)) is not None:
                return logits
            ordered, places = singles_first(plan)
            logits = self._model.forward(self._batch(ordered))
            return logits if places is None else logits[upload(torch.tensor(places), logits.device)]

    def _batch(self, plan: Plan) -> Batch:
        pool = self._pool
        layout = StepLayout(size_of(plan, pool.page_tokens, is_sealed=pool.sealed_dtype is not None))
        memory = staging(layout.num_words, torch.int64, pool.device).zero_()
        pack(plan, layout.host_arrays(memory.numpy()), pool.page_tokens, pool.first_exact_page)
        return layout.batch(
            upload(memory, pool.device),
            pool.layers,
            num_single=num_single(plan),
            is_batch_invariant=self._is_batch_invariant,
        )
