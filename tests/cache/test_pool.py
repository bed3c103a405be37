"""The KV pool and the batch a runner makes of a plan."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.engine.plan import PageCopy, Plan, Span
from sgrt.engine.runner import ModelRunner
from sgrt.model.batch import Batch

SHAPE = PoolShape(num_layers=2, num_pages=5, page_tokens=4, kv_heads=1, head_dim=2)


def test_pages_start_as_zeros_of_the_asked_type() -> None:
    pool = KVPool(SHAPE, dtype=torch.bfloat16)
    assert len(pool.layers) == 2
    assert pool.layers[1].keys.shape == (5, 4, 1, 2)
    assert pool.layers[0].values.dtype is torch.bfloat16
    assert not pool.layers[0].keys.any()


def test_bytes_per_token_count_keys_and_values_of_all_layers() -> None:
    assert SHAPE.bytes_per_token(torch.float32) == 2 * 2 * 1 * 2 * 4


def test_copying_takes_the_first_tokens_of_a_page_in_every_layer() -> None:
    pool = KVPool(SHAPE, dtype=torch.float32)
    for layer in pool.layers:
        layer.keys[1] = 1.0
        layer.values[1] = 2.0
    pool.copy_pages([(1, 3, 3)])
    for layer in pool.layers:
        assert layer.keys[3, :, 0, 0].tolist() == [1.0, 1.0, 1.0, 0.0]
        assert layer.values[3, :, 0, 0].tolist() == [2.0, 2.0, 2.0, 0.0]


class Recorder:
    """A model that keeps the batch it was given."""

    batch: Batch

    def forward(self, batch: Batch) -> Tensor:
        self.batch = batch
        return torch.zeros(len(batch.logit_rows), 7)


def test_a_plan_becomes_a_ragged_batch() -> None:
    model = Recorder()
    pool = KVPool(SHAPE, dtype=torch.float32)
    runner = ModelRunner(model, pool, vocabulary_tokens=7)
    decode = Span(tokens=[9], start=5, pages=[4, 2], logits_from=0, prompt_tokens=3)
    prefill = Span(tokens=[6, 7, 8], start=3, pages=[0, 3, 1], logits_from=2, prompt_tokens=6)
    plan = Plan(spans=(decode, prefill), copies=(PageCopy(source=4, target=0, num_tokens=2),))
    logits = runner.run(plan)
    batch = model.batch
    assert logits.shape == (plan.num_logit_rows, runner.vocabulary_tokens) == (2, 7)
    assert batch.token_ids.tolist() == [9, 6, 7, 8]
    assert batch.positions.tolist() == [5, 3, 4, 5]
    assert batch.slots.tolist() == [2 * 4 + 1, 0 * 4 + 3, 3 * 4, 3 * 4 + 1]
    assert batch.query_starts.tolist() == [0, 1, 4]
    assert batch.context_lengths.tolist() == [6, 6]
    assert batch.page_table.tolist() == [[4, 2], [0, 3]]
    assert batch.logit_rows.tolist() == [0, 3]
    assert batch.layers is pool.layers
