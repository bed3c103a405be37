"""What an engine runs, without an engine: a model behind the real runner, and sequences that grow in its pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.engine.decode_graphs import DecodeGraphs
from sgrt.engine.plan import Plan, Span
from sgrt.engine.runner import ModelRunner
from sgrt.model.model import Model
from sgrt_kernels.device import GraphCapture, graph_capture

PAGE = 32


class CallingCapture:
    """Stands in for CUDA graphs where there are none: what is replayed is called."""

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Run it once, as a recording does to warm up."""
        run()
        return run


class Executor:
    """Sequences of up to `tokens_each` tokens, each over pages of its own, run by plans as the scheduler makes them."""

    def __init__(
        self,
        model: Model,
        *,
        sequences: int,
        tokens_each: int,
        dtype: torch.dtype,
        sealed: torch.dtype | None,
        device: torch.device,
        has_graphs: bool = True,
        tails_each: int | None = None,
    ) -> None:
        """With `has_graphs` decode steps are recorded and replayed. `tails_each`: exact pages of a sequence whose full
        ones are sealed, as many as a chunk reaches; None: as many as it has.
        """
        config = model.config
        pages_each = -(-tokens_each // PAGE)
        self._pages_each, self._is_sealed = pages_each, sealed is not None
        self._tails_each = tails_each or pages_each
        self.pool = KVPool(
            PoolShape(
                num_layers=len(config.layers),
                num_pages=sequences * pages_each,
                page_tokens=PAGE,
                kv_heads=config.kv_heads,
                head_dim=config.head_dim,
                num_tail_pages=sequences * self._tails_each if sealed else 0,
            ),
            dtype=dtype,
            sealed_dtype=sealed,
            device=device,
            has_scratch=has_graphs,
        )
        self.graphs = None
        if has_graphs:
            capture: GraphCapture = graph_capture(device) or CallingCapture()
            self.graphs = DecodeGraphs(
                model,
                self.pool,
                capture,
                vocabulary_tokens=config.vocabulary,
                max_sequences=sequences,
                max_context_tokens=tokens_each,
            )
        self._runner = ModelRunner(model, self.pool, vocabulary_tokens=config.vocabulary, graphs=self.graphs)
        self._lengths = [0] * sequences

    def run(self, chunks: Sequence[Sequence[int]]) -> Tensor:
        """Append the chunks to the first sequences; logits of every new position."""
        spans = [self._span(index, list(chunk)) for index, chunk in enumerate(chunks) if chunk]
        return self._runner.run(Plan(spans=tuple(spans)))

    def assume(self, lengths: Sequence[int]) -> None:
        """Take it that the first sequences hold so many tokens, whatever lies in their pages."""
        self._lengths[: len(lengths)] = lengths

    def _span(self, index: int, tokens: list[int]) -> Span:
        start, end = self._lengths[index], self._lengths[index] + len(tokens)
        self._lengths[index] = end
        reached, first = -(-end // PAGE), index * self._pages_each
        tails = self.pool.shape.num_pages + index * self._tails_each
        written = [tails + page % self._tails_each for page in range(start // PAGE, reached)]
        return Span(
            tokens=tokens,
            start=start,
            pages=list(range(first, first + reached)),
            own_pages=written if self._is_sealed else [],
            logits_from=0,
            prompt_tokens=end,
        )
