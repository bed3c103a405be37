"""What a GPU does before its first request, here without one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from random_models import random_model
from torch import Tensor

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.config import Limits
from sgrt.engine.decode_graphs import DecodeGraphs
from sgrt.engine.plan import Plan
from sgrt.engine.runner import ModelRunner
from sgrt.engine.warm_up import warm_up

LIMITS = Limits(
    context_tokens=300,
    num_pages=12,
    page_tokens=8,
    max_running=4,
    step_tokens=64,
    max_draft_tokens=4,
    num_tail_pages=20,
)


class CallingCapture:
    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        run()
        return run


class Recorder(ModelRunner):
    """Notes what it is asked to run."""

    plans: list[Plan]

    def run(self, plan: Plan) -> Tensor:
        self.plans.append(plan)
        return super().run(plan)


@pytest.mark.parametrize("sealed", [None, torch.int8], ids=str)
def test_every_kind_of_step_runs_before_the_first_request(sealed: torch.dtype | None) -> None:
    model = random_model("llama")
    config = model.config
    shape = PoolShape(
        num_layers=len(config.layers),
        num_pages=LIMITS.num_pages,
        page_tokens=LIMITS.page_tokens,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        num_tail_pages=LIMITS.num_tail_pages if sealed else 0,
    )
    pool = KVPool(shape, dtype=torch.float32, sealed_dtype=sealed, has_scratch=True)
    graphs = DecodeGraphs(
        model,
        pool,
        CallingCapture(),
        vocabulary_tokens=config.vocabulary,
        max_sequences=LIMITS.max_running,
        max_context_tokens=LIMITS.context_tokens,
    )
    runner = Recorder(model, pool, vocabulary_tokens=config.vocabulary, graphs=graphs)
    runner.plans = []
    warm_up(runner, pool, graphs, LIMITS, sampled_tokens=config.vocabulary)
    assert [[len(span.tokens) for span in plan.spans] for plan in runner.plans] == [[64], [1, 9]]
    assert graphs.num_graphs == 3 * 4  # 16, 32 and 64 pages; 1 to 4 sequences
    assert all(bool(layer.keys.isfinite().all()) for layer in pool.layers)


def test_a_pool_smaller_than_a_step_is_enough() -> None:
    model = random_model("llama")
    config = model.config
    limits = Limits(
        context_tokens=300, num_pages=1, page_tokens=8, max_running=1, step_tokens=64, max_draft_tokens=4
    )
    shape = PoolShape(
        num_layers=len(config.layers),
        num_pages=1,
        page_tokens=8,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
    )
    runner = Recorder(model, KVPool(shape, dtype=torch.float32), vocabulary_tokens=config.vocabulary)
    runner.plans = []
    warm_up(runner, KVPool(shape, dtype=torch.float32), None, limits, sampled_tokens=config.vocabulary)
    assert [plan.num_tokens for plan in runner.plans] == [8]
