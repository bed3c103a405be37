"""Running a plan: the seam between the engine's ints and a model's tensors."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool
from sgrt.engine.decode_graphs import CausalModel, DecodeGraphs
from sgrt.engine.packing import numbers_of, pack, singles_first, size_of
from sgrt.engine.plan import Plan
from sgrt.engine.prefix_sharing import PrefixSharing
from sgrt.engine.step_arrays import StepLayout
from sgrt.model.batch import Batch
from sgrt.model.native_step import StepNumbers
from sgrt_kernels.device import staging, upload
from sgrt_kernels.ops.tree_attention import PlannedTree


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
        sharing: PrefixSharing | None = None,
        is_batch_invariant: bool = False,
    ) -> None:
        """With `graphs` steps that only decode are replayed rather than launched kernel by kernel.

        With `sharing` sequences that decode read once what they share, where that is faster. With `is_batch_invariant`
        a row's numbers on a GPU do not depend on what else is in its batch: nothing is shared then.
        """
        self._model = model
        self._pool = pool
        self._vocabulary_tokens = vocabulary_tokens
        self._graphs = graphs
        self._sharing = None if is_batch_invariant else sharing
        self._is_batch_invariant = is_batch_invariant

    @property
    def vocabulary_tokens(self) -> int:
        """Width of the logits."""
        return self._vocabulary_tokens

    def run(self, plan: Plan) -> Tensor:
        """Copy the plan's pages, then compute its spans in one pass."""
        pool = self._pool
        with torch.inference_mode():
            if plan.copies:
                pool.copy_pages([(copy.source, copy.target, copy.num_tokens) for copy in plan.copies])
            ordered, places = singles_first(plan)
            numbers = numbers_of(
                ordered, pool.page_tokens, pool.first_exact_page, is_sealed=pool.sealed_dtype is not None
            )
            tree = self._tree(ordered)
            if self._graphs is not None and plan.is_decode:
                logits = self._graphs.run(numbers, tree)
                if logits is not None:
                    return logits
            logits = self._model.forward(self._batch(numbers, tree))
            return logits if places is None else logits[upload(torch.tensor(places), logits.device)]

    def _tree(self, plan: Plan) -> PlannedTree | None:
        """What the plan's first spans, those of one token, share, if that is worth a tree."""
        if self._sharing is None:
            return None
        singles = [span for span in plan.spans if len(span.tokens) == 1]
        return self._sharing.tree(singles)

    def _batch(self, numbers: StepNumbers, tree: PlannedTree | None) -> Batch:
        pool = self._pool
        layout = StepLayout(size_of(numbers, pool.page_tokens, tree))
        memory = staging(layout.num_words, torch.int64, pool.device).zero_()
        pack(numbers, layout.host_arrays(memory.numpy()), tree)
        return layout.batch(
            upload(memory, pool.device), pool.layers, is_batch_invariant=self._is_batch_invariant
        )
