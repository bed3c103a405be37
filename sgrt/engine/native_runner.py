"""Running a plan on the CPU kernels, in plain ints: for one token, tensors would cost as much as some layers."""

from __future__ import annotations

from array import array

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool
from sgrt.engine.packing import numbers_of
from sgrt.engine.plan import Plan
from sgrt.model.native_decoder import NativeDecoder


class NativeRunner:
    """The CPU kernels and the pool their keys and values lie in. Its logits are valid until the next plan."""

    def __init__(self, decoder: NativeDecoder, pool: KVPool, *, sampled_tokens: int) -> None:
        """`sampled_tokens`: how many of the logits stand for tokens."""
        self._decoder = decoder
        self._pool = pool
        self._sampled_tokens = sampled_tokens
        self._logits = torch.empty((0, self.vocabulary_tokens))
        self._largest = array("q")
        self._rows = 0

    @property
    def vocabulary_tokens(self) -> int:
        """Width of the logits."""
        return self._decoder.config.vocabulary

    @property
    def kernel_s(self) -> float:
        """Seconds spent inside the kernels so far."""
        return self._decoder.kernel_s

    def run(self, plan: Plan) -> Tensor:
        """Copy the plan's pages, then compute its spans in one pass."""
        pool = self._pool
        if plan.copies:
            pool.copy_pages([(copy.source, copy.target, copy.num_tokens) for copy in plan.copies])
        numbers = numbers_of(
            plan, pool.page_tokens, pool.first_exact_page, is_sealed=pool.sealed_dtype is not None
        )
        self._rows = rows = len(numbers.logit_rows)
        if rows > len(self._largest):
            self._logits = torch.empty((rows, self.vocabulary_tokens), dtype=torch.float32)
            self._largest = array("q", bytes(8 * rows))
        self._decoder.compute(
            numbers,
            pool.layers,
            self._logits,
            largest=self._largest,
            candidates=self._sampled_tokens,
        )
        return self._logits if rows == len(self._largest) else self._logits[:rows]

    def largest(self) -> list[int]:
        """Of every row of the last plan the token with the largest logit; -1 where none is above -inf."""
        return self._largest[: self._rows].tolist()
