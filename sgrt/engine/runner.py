"""Running a plan: the seam between the engine's ints and a model's tensors."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool
from sgrt.engine.plan import Plan
from sgrt.model.batch import Batch
from sgrt_kernels.layout import PageSeals


class Runner(Protocol):
    """Computes a plan. One thread calls it, one plan at a time."""

    @property
    def vocabulary_tokens(self) -> int:
        """Width of the logits."""
        ...

    def run(self, plan: Plan) -> Tensor:
        """Logits [rows, vocabulary] float32: one row per wanted position, in the plan's order."""
        ...


class CausalModel(Protocol):
    """What the runner needs of a model: logits of the wanted rows of a batch, float32."""

    def forward(self, batch: Batch) -> Tensor:
        """Logits [rows, vocabulary] float32."""
        ...


class ModelRunner:
    """A model and the pool its keys and values lie in."""

    def __init__(self, model: CausalModel, pool: KVPool, *, vocabulary_tokens: int) -> None:
        self._model = model
        self._pool = pool
        self._vocabulary_tokens = vocabulary_tokens

    @property
    def vocabulary_tokens(self) -> int:
        """Width of the logits."""
        return self._vocabulary_tokens

    def run(self, plan: Plan) -> Tensor:
        """Copy the plan's pages, then compute its spans in one pass."""
        with torch.inference_mode():
            if plan.copies:
                self._pool.copy_pages([(copy.source, copy.target, copy.num_tokens) for copy in plan.copies])
            return self._model.forward(self._batch(plan))

    def _batch(self, plan: Plan) -> Batch:
        page_tokens, first_exact = self._pool.page_tokens, self._pool.first_exact_page
        tokens: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        starts = [0]
        contexts: list[int] = []
        rows: list[int] = []
        widest = 1
        for span in plan.spans:
            count, start, first_page = len(span.tokens), span.start, span.start // page_tokens
            written = [page - first_exact for page in span.own_pages or span.pages[first_page:]]
            first_row = len(tokens)
            tokens += span.tokens
            positions += range(start, start + count)
            slots += [
                written[at // page_tokens - first_page] * page_tokens + at % page_tokens
                for at in range(start, start + count)
            ]
            rows += range(first_row + span.logits_from, first_row + count)
            starts.append(first_row + count)
            contexts.append(start + count)
            widest = max(widest, -(-(start + count) // page_tokens))
        table = _padded([span.pages[:widest] for span in plan.spans])
        device = self._pool.device
        return Batch(
            token_ids=torch.tensor(tokens, dtype=torch.int64, device=device),
            positions=torch.tensor(positions, dtype=torch.int64, device=device),
            slots=torch.tensor(slots, dtype=torch.int64, device=device),
            query_starts=torch.tensor(starts, dtype=torch.int32, device=device),
            context_lengths=torch.tensor(contexts, dtype=torch.int32, device=device),
            page_table=torch.tensor(table, dtype=torch.int32, device=device),
            logit_rows=torch.tensor(rows, dtype=torch.int64, device=device),
            layers=self._pool.layers,
            seals=None if self._pool.sealed_dtype is None else self._seals(plan),
        )

    def _seals(self, plan: Plan) -> PageSeals:
        """The exact pages of every span, and which of them it fills."""
        page_tokens, first_exact = self._pool.page_tokens, self._pool.first_exact_page
        sources: list[int] = []
        targets: list[int] = []
        own: list[list[int]] = []
        for span in plan.spans:
            filled = span.filled(page_tokens)
            exact = [page - first_exact for page in span.own_pages]
            own.append(exact)
            sources += exact[: len(filled)]
            targets += span.pages[filled.start : filled.stop]
        device = self._pool.device
        return PageSeals(
            sources=torch.tensor(sources, dtype=torch.int64, device=device),
            targets=torch.tensor(targets, dtype=torch.int64, device=device),
            own_pages=torch.tensor(_padded(own), dtype=torch.int32, device=device),
        )


def _padded(rows: list[list[int]]) -> list[list[int]]:
    """Rows of equal length, at least 1, filled up with zeros."""
    width = max(1, *(len(row) for row in rows)) if rows else 1
    return [[*row, *[0] * (width - len(row))] for row in rows]
