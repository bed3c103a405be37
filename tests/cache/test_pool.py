"""The KV pool and the batch a runner makes of a plan."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.engine.packing import numbers_of, singles_first, size_of
from sgrt.engine.plan import PageCopy, Plan, Span
from sgrt.engine.runner import ModelRunner
from sgrt.model.batch import Batch
from sgrt_kernels.layout import INTEGER_DTYPE, SEALED_DTYPES, LayoutError, SealedPages
from sgrt_kernels.ops.kv_write import kv_write

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


def test_copying_pages_of_integers_takes_whole_tiles() -> None:
    pool = KVPool(replace(SHAPE, page_tokens=48), dtype=INTEGER_DTYPE)
    slots = torch.arange(48, 96)
    for layer in pool.layers:
        kv_write(torch.randn(48, 1, 2), torch.randn(48, 1, 2), layer, slots)
    pool.copy_pages([(1, 3, 17)])
    for layer in pool.layers:
        (keys, values), copied = layer.in_pages(torch.tensor(1)), layer.in_pages(torch.tensor(3))
        assert torch.equal(copied[0][:32], keys[:32]) and torch.equal(copied[1][:32], values[:32])
        assert not copied[0][32:].any() and not copied[1][32:].any()


def test_pages_of_integers_hold_whole_tiles() -> None:
    with pytest.raises(LayoutError, match="tokens come by 16"):
        KVPool(SHAPE, dtype=INTEGER_DTYPE)


@pytest.mark.parametrize("dtype", SEALED_DTYPES, ids=str)
def test_sealed_pages_lie_beside_exact_tail_pages(dtype: torch.dtype) -> None:
    pool = KVPool(replace(SHAPE, num_tail_pages=3), dtype=torch.bfloat16, sealed_dtype=dtype)
    (layer, _) = pool.layers
    assert layer.sealed is not None
    assert layer.keys.shape == (3, 4, 1, 2)
    assert layer.sealed.keys.shape == (5, 4, 1, 2)
    assert layer.sealed.values.dtype is dtype
    layer.keys[1] = 1.0
    pool.copy_pages([(6, 7, 2)])  # tail pages are numbered from 5 on
    assert layer.keys[2, :, 0, 0].tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("kv_heads", "head_dim"), [(3, 64), (2, 64), (8, 128), (1, 256)])
def test_a_sealed_page_is_at_least_1_9_times_smaller_than_a_bfloat16_page(
    kv_heads: int, head_dim: int
) -> None:
    shape = PoolShape(
        num_layers=2, num_pages=40, page_tokens=32, kv_heads=kv_heads, head_dim=head_dim, num_tail_pages=6
    )
    exact = shape.bytes_per_token(torch.bfloat16) * shape.page_tokens
    pool = KVPool(shape, dtype=torch.bfloat16, sealed_dtype=torch.int8)
    assert exact / shape.sealed_page_bytes >= 1.9
    stored = sum(_bytes_of(layer.sealed) + layer.keys.nbytes + layer.values.nbytes for layer in pool.layers)
    assert pool.num_bytes == stored == 40 * shape.sealed_page_bytes + 6 * exact


def _bytes_of(sealed: SealedPages | None) -> int:
    assert sealed is not None
    return sum(getattr(sealed, field.name).nbytes for field in fields(sealed))


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
    assert batch.seals is None


def test_a_plan_over_sealed_pages_says_what_is_written_sealed_and_read() -> None:
    model = Recorder()
    pool = KVPool(replace(SHAPE, num_tail_pages=4), dtype=torch.float32, sealed_dtype=torch.int8)
    runner = ModelRunner(model, pool, vocabulary_tokens=7)
    decode = Span(tokens=[9], start=6, pages=[4], own_pages=[8], logits_from=0, prompt_tokens=3)
    prefill = Span(
        tokens=[6, 7, 8, 9, 6], start=3, pages=[0, 3], own_pages=[5, 7], logits_from=4, prompt_tokens=8
    )
    runner.run(Plan(spans=(decode, prefill)))
    batch = model.batch
    assert batch.slots.tolist() == [3 * 4 + 2, 0 * 4 + 3, 2 * 4, 2 * 4 + 1, 2 * 4 + 2, 2 * 4 + 3]
    assert batch.page_table.tolist() == [[4, 0], [0, 3]]
    assert batch.seals is not None
    assert batch.seals.sources.tolist() == [0, 2]
    assert batch.seals.targets.tolist() == [0, 3]
    assert batch.seals.own_pages.tolist() == [[3, 0], [0, 2]]


def test_single_tokens_come_before_chunks_and_logits_in_the_order_of_the_plan() -> None:
    def span(*tokens: int, wanted: int) -> Span:
        return Span(
            tokens=list(tokens),
            start=0,
            pages=[0],
            logits_from=len(tokens) - wanted,
            prompt_tokens=len(tokens),
        )

    plan = Plan(spans=(span(1, 2, 3, wanted=2), span(4, wanted=1), span(5, 6, wanted=1), span(7, wanted=0)))
    ordered, places = singles_first(plan)
    assert [found.tokens for found in ordered.spans] == [[4], [7], [1, 2, 3], [5, 6]]
    assert places == [1, 2, 0, 3]
    assert size_of(numbers_of(ordered, 4, 0, is_sealed=False), 4).singles == 2
    assert singles_first(ordered) == (ordered, None)
