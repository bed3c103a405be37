"""Attention over sealed pages: it follows its rule, and chunks, prefixes and batches do not change it."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sealed_sequence import (
    TokenRun,
    attend,
    exact_ids,
    make_run,
    paired_layer,
    run_in_chunks,
    sealed_ids,
    write_and_seal,
)
from torch import Tensor

from sgrt_kernels.layout import SEALED_DTYPES, LayoutError, PagedLayer
from sgrt_kernels.ops.page_copy import page_copy
from sgrt_kernels.ops.sealed_attention import sealed_attention

DTYPES = pytest.mark.parametrize("dtype", SEALED_DTYPES, ids=str)
SCALE = 32**-0.5
AGREEMENT = 1e-5


def by_the_rule(
    run: TokenRun, layer: PagedLayer, *, window: int | None = None, soft_cap: float | None = None
) -> Tensor:
    """The rule by the textbook in float64: own page exact, earlier pages sealed, one row at a time."""
    assert layer.sealed is not None
    tokens, heads, _ = run.query.shape
    group, page = heads // run.keys.shape[1], layer.page_tokens
    ids = sealed_ids(layer).long()
    sealed_keys = layer.sealed.dequantized_keys(ids).flatten(0, 1).double()
    sealed_values = layer.sealed.dequantized_values(ids).flatten(0, 1).double()
    rows = []
    for t in range(tokens):
        own = t // page * page
        low = 0 if window is None else max(0, t - window + 1)
        keys = torch.cat([sealed_keys[:own], run.keys[own : t + 1].double()])[low:]
        values = torch.cat([sealed_values[:own], run.values[own : t + 1].double()])[low:]
        keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        scores = torch.einsum("hd,nhd->hn", run.query[t].double(), keys) * SCALE
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        rows.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), values))
    return torch.stack(rows)


@DTYPES
@pytest.mark.parametrize("page_tokens", [8, 16, 32, 128])
@pytest.mark.parametrize(("window", "soft_cap"), [(None, None), (37, None), (None, 5.0)])
def test_a_query_reads_its_own_page_exact_and_earlier_pages_sealed(
    dtype: torch.dtype, page_tokens: int, window: int | None, soft_cap: float | None
) -> None:
    run = make_run(145)
    layer = paired_layer(run, dtype=dtype, page_tokens=page_tokens)
    write_and_seal(run, layer, 0, 145)
    result = attend(run, layer, 0, 145, scale=SCALE, window=window, soft_cap=soft_cap)
    expected = by_the_rule(run, layer, window=window, soft_cap=soft_cap)
    assert (result - expected).abs().max() <= AGREEMENT


@DTYPES
@settings(max_examples=8)
@given(data=st.data())
def test_chunks_do_not_change_the_result(dtype: torch.dtype, data: st.DataObject) -> None:
    tokens = 100
    chunks: list[int] = []
    while (left := tokens - sum(chunks)) > 0:
        chunks.append(data.draw(st.integers(1, min(left, 40))))
    run = make_run(tokens)
    whole = run_in_chunks(run, paired_layer(run, dtype=dtype, page_tokens=32), [tokens], scale=SCALE)
    chunked = run_in_chunks(run, paired_layer(run, dtype=dtype, page_tokens=32), chunks, scale=SCALE)
    assert (whole - chunked).abs().max() <= AGREEMENT


@DTYPES
@pytest.mark.parametrize("page_tokens", [8, 16, 32, 128])
@pytest.mark.parametrize("heads", [2, 4, 6])
def test_one_token_at_a_time_equals_the_whole_bit_for_bit(
    dtype: torch.dtype, page_tokens: int, heads: int
) -> None:
    run = make_run(70, heads=heads)
    whole = run_in_chunks(run, paired_layer(run, dtype=dtype, page_tokens=page_tokens), [70], scale=SCALE)
    decoded = run_in_chunks(
        run, paired_layer(run, dtype=dtype, page_tokens=page_tokens), [1] * 70, scale=SCALE
    )
    assert torch.equal(whole, decoded)


@DTYPES
@pytest.mark.parametrize("cached", [1, 31, 32, 33, 64, 69])
def test_a_cached_prefix_with_a_copied_tail_page_reads_like_a_computed_one(
    dtype: torch.dtype, cached: int
) -> None:
    run = make_run(70)
    expected = run_in_chunks(run, paired_layer(run, dtype=dtype, page_tokens=32), [70], scale=SCALE)
    layer = paired_layer(run, dtype=dtype, page_tokens=32)
    write_and_seal(run, layer, 0, cached)
    # another sequence takes over: sealed pages are shared, the exact tail is copied into a page of its own
    taken = dataclasses.replace(
        layer,
        keys=torch.full_like(layer.keys, float("nan")),
        values=torch.full_like(layer.values, float("nan")),
    )
    tail = exact_ids(layer).long()[cached // 32]
    both = PagedLayer(
        keys=torch.cat([layer.keys, taken.keys]), values=torch.cat([layer.values, taken.values])
    )
    page_copy(both, tail[None], tail[None] + layer.keys.shape[0], torch.tensor([cached % 32]))
    taken.keys.copy_(both.keys[layer.keys.shape[0] :])
    taken.values.copy_(both.values[layer.keys.shape[0] :])
    write_and_seal(run, taken, cached, 70)
    result = attend(run, taken, cached, 70, scale=SCALE)
    assert (result - expected[cached:]).abs().max() <= AGREEMENT


@DTYPES
def test_a_sequence_does_not_depend_on_its_batch(dtype: torch.dtype) -> None:
    run = make_run(90)
    layer = paired_layer(run, dtype=dtype, page_tokens=32)
    write_and_seal(run, layer, 0, 90)
    alone = [attend(run, layer, start, end, scale=SCALE) for start, end in ((60, 90), (10, 35), (0, 1))]
    ids, own = sealed_ids(layer), exact_ids(layer)
    together = sealed_attention(
        torch.cat([run.query[60:90], run.query[10:35], run.query[0:1]]),
        layer,
        torch.tensor([0, 30, 55, 56], dtype=torch.int32),
        torch.tensor([90, 35, 1], dtype=torch.int32),
        ids[None, :3].expand(3, 3),
        torch.stack([own[1:3], own[0:2], own[0:2]]),
        scale=SCALE,
    )
    assert torch.equal(together, torch.cat(alone))


@DTYPES
def test_keys_times_a_power_of_two_and_queries_divided_by_it_change_nothing(dtype: torch.dtype) -> None:
    run = make_run(128)
    scaled = dataclasses.replace(run, keys=run.keys * 128, query=run.query / 128)
    first, second = (
        run_in_chunks(r, paired_layer(r, dtype=dtype, page_tokens=32), [128], scale=SCALE)
        for r in (run, scaled)
    )
    assert (first - second).norm() / first.norm() <= 1e-6


@DTYPES
@pytest.mark.parametrize("factor", [100.0, 0.01])
def test_keys_times_a_factor_and_queries_divided_by_it_are_as_close_as_before(
    dtype: torch.dtype, factor: float
) -> None:
    run = make_run(128)
    scaled = dataclasses.replace(run, keys=run.keys * factor, query=run.query / factor)
    errors = [
        float(
            (
                run_in_chunks(r, paired_layer(r, dtype=dtype, page_tokens=32), [128], scale=SCALE)
                - by_exact(r)
            ).norm()
        )
        for r in (run, scaled)
    ]
    assert errors[1] <= 1.6 * errors[0]  # roundings fall elsewhere, their size stays


@DTYPES
def test_a_pair_of_outlier_channels_does_not_cost_the_others_their_precision(dtype: torch.dtype) -> None:
    def error(outlier: float) -> float:
        run = make_run(128, seed=3)
        run.keys[..., 5] *= outlier
        run.keys[..., 21] *= outlier
        run.query[..., 5] /= outlier
        run.query[..., 21] /= outlier
        layer = paired_layer(run, dtype=dtype, page_tokens=32)
        result = run_in_chunks(run, layer, [128], scale=SCALE).double()
        exact = by_exact(run)
        return float((result - exact).norm() / exact.norm())

    assert error(64.0) < 2 * error(1.0)


def by_exact(run: TokenRun) -> Tensor:
    """Plain causal attention in float64."""
    group = run.query.shape[1] // run.keys.shape[1]
    keys, values = (x.double().repeat_interleave(group, 1).transpose(0, 1) for x in (run.keys, run.values))
    query = run.query.double().transpose(0, 1)
    return torch.nn.functional.scaled_dot_product_attention(
        query, keys, values, is_causal=True, scale=SCALE
    ).transpose(0, 1)


def test_int8_pages_stay_close_to_exact_attention() -> None:
    run = make_run(256, seed=1)
    errors = {}
    for dtype in SEALED_DTYPES:
        result = run_in_chunks(run, paired_layer(run, dtype=dtype, page_tokens=32), [256], scale=SCALE)
        errors[dtype] = float((result.double() - by_exact(run)).norm() / by_exact(run).norm())
    assert errors[torch.int8] < 0.02
    assert errors[torch.float8_e4m3fn] < 0.12


def test_an_empty_batch_gives_an_empty_result() -> None:
    run = make_run(4)
    layer = paired_layer(run, dtype=torch.int8, page_tokens=32)
    empty = torch.zeros(1, 1, dtype=torch.int32)
    result = sealed_attention(
        run.query[:0], layer, torch.tensor([0, 0]), torch.tensor([0]), empty, empty, scale=SCALE
    )
    assert result.shape == (0, 6, 32)


def test_a_layer_without_sealed_pages_is_refused() -> None:
    run = make_run(4)
    layer = PagedLayer(keys=run.keys[None], values=run.values[None])
    table = torch.zeros(1, 1, dtype=torch.int32)
    with pytest.raises(LayoutError, match="use paged_attention"):
        sealed_attention(run.query, layer, torch.tensor([0, 4]), torch.tensor([4]), table, table, scale=SCALE)
