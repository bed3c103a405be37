"""The sampler's definition: filters, penalties, masks, noise, log-probabilities."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from sgrt_kernels.ops.masked_sample import (
    SamplingRows,
    TokenHistory,
    masked_sample,
    native,
    reference,
    token_logprobs,
)
from sgrt_kernels.ops.masked_sample.reference import gumbel_noise
from sgrt_kernels.ops.masked_sample.rows import LogitBias

FOUR = torch.tensor([3.0, 2.0, 1.0, 0.0])


def draws(
    logits: Tensor,
    count: int,
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    seed: int = 1,
) -> Tensor:
    """`count` draws of one row at as many positions."""
    return masked_sample(
        logits.expand(count, -1),
        SamplingRows(
            temperature=torch.full((count,), temperature),
            top_k=torch.full((count,), top_k),
            top_p=torch.full((count,), top_p),
            min_p=torch.full((count,), min_p),
            seeds=torch.full((count,), seed),
            positions=torch.arange(count),
        ),
    )


def pack(allowed: list[list[int]], vocabulary: int) -> Tensor:
    words = [[0] * -(-vocabulary // 32) for _ in allowed]
    for row, tokens in zip(words, allowed, strict=True):
        for token in tokens:
            row[token // 32] |= 1 << (token % 32)
    return torch.tensor([[w - (1 << 32) if w >> 31 else w for w in row] for row in words], dtype=torch.int32)


def test_greedy_takes_the_largest_and_the_lowest_id_of_equals() -> None:
    logits = torch.tensor([[0.0, 5.0, 5.0], [1.0, 1.0, 1.0]])
    assert masked_sample(logits, SamplingRows()).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p", "support"),
    [
        (0, 1.0, 0.0, {0, 1, 2, 3}),
        (1, 0.8, 0.0, {0}),
        (0, 1e-9, 0.0, {0}),
        (2, 0.5, 0.0, {0}),
        (2, 1.0, 0.0, {0, 1}),
        (4, 1.0, 0.0, {0, 1, 2, 3}),
        (0, 0.8, 0.0, {0, 1}),
        (0, 1.0, 0.3, {0, 1}),
        (0, 1.0, 1.0, {0}),
        (3, 0.9, 0.1, {0, 1}),
    ],
)
def test_filters_keep_exactly_their_support(
    top_k: int, top_p: float, min_p: float, support: set[int]
) -> None:
    assert set(draws(FOUR, 2000, top_k=top_k, top_p=top_p, min_p=min_p).tolist()) == support


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature: float) -> None:
    count = 20_000
    expected = torch.softmax(FOUR / temperature, -1)
    seen = torch.bincount(draws(FOUR, count, temperature=temperature), minlength=4) / count
    sigma = torch.sqrt(expected * (1 - expected) / count)
    assert bool(((seen - expected).abs() < 4 * sigma).all())


def test_draws_of_different_seeds_follow_the_softmax_at_one_position() -> None:
    count = 20_000
    rows = SamplingRows(
        temperature=torch.ones(count), seeds=torch.arange(count), positions=torch.full((count,), 7)
    )
    expected = torch.softmax(FOUR, -1)
    seen = torch.bincount(masked_sample(FOUR.expand(count, -1), rows), minlength=4) / count
    assert bool(((seen - expected).abs() < 4 * torch.sqrt(expected * (1 - expected) / count)).all())


def test_noise_is_finite_and_depends_on_seed_and_position() -> None:
    noise = gumbel_noise(torch.tensor([1, 1, 2, 2**62]), torch.tensor([0, 1, 0, 0]), 5000)
    assert bool(noise.isfinite().all())
    assert len({tuple(row[:8].tolist()) for row in noise}) == 4
    # Euler's constant and pi^2 / 6 are the mean and the variance of a standard Gumbel variable.
    assert abs(float(noise.mean()) - 0.5772) < 0.05
    assert abs(float(noise.var()) - math.pi**2 / 6) < 0.1


def test_known_noise_stays_as_it_is() -> None:
    """Twins of this function in other languages are held to these values."""
    noise = gumbel_noise(torch.tensor([0, 12345678901234567]), torch.tensor([0, 4_000]), 3)
    expected = [
        [_noise(0, 0, token) for token in range(3)],
        [_noise(12345678901234567, 4_000, t) for t in range(3)],
    ]
    torch.testing.assert_close(noise, torch.tensor(expected), rtol=1e-5, atol=1e-5)


def _noise(seed: int, position: int, token: int) -> float:
    def mix(x: int) -> int:
        x ^= x >> 16
        x = x * 0x7FEB352D & 0xFFFFFFFF
        x ^= x >> 15
        x = x * 0x846CA68B & 0xFFFFFFFF
        return x ^ x >> 16

    low = mix(mix(seed & 0xFFFFFFFF) + (seed >> 32) + 0x9E3779B9 * (position + 1) & 0xFFFFFFFF)
    high = mix(low ^ 0x85EBCA6B ^ position >> 32)
    bits = mix(mix(token ^ low) + high & 0xFFFFFFFF)
    return -math.log(-math.log(((bits >> 9) + 0.5) * 2.0**-23))


@given(seed=st.integers(0, 2**63 - 1), companions=st.integers(0, 5), row=st.integers(0, 5))
def test_a_row_is_drawn_alike_whatever_else_is_in_the_batch(seed: int, companions: int, row: int) -> None:
    place = min(row, companions)
    generator = torch.Generator().manual_seed(seed % 1000)
    logits = torch.randn(companions + 1, 600, generator=generator) * 3
    seeds = torch.arange(companions + 1) + 17
    seeds[place] = seed

    def rows(chosen: Tensor) -> SamplingRows:
        count = len(chosen)
        return SamplingRows(
            temperature=torch.full((count,), 0.9),
            top_p=torch.full((count,), 0.97),
            top_k=torch.full((count,), 400),
            seeds=seeds[chosen],
            positions=chosen * 3,
        )

    everybody = torch.arange(companions + 1)
    alone = everybody[place : place + 1]
    together = masked_sample(logits, rows(everybody))
    assert int(together[place]) == int(masked_sample(logits[alone], rows(alone)))


def test_masked_tokens_are_never_drawn() -> None:
    logits = torch.arange(70.0).expand(3, -1)
    allowed = [[0, 31], [32, 64], [69]]
    assert masked_sample(logits, SamplingRows(masks=pack(allowed, 70))).tolist() == [31, 64, 69]
    sampled = SamplingRows(
        masks=pack(allowed, 70),
        temperature=torch.full((3,), 50.0),
        top_p=torch.full((3,), 0.999),
        seeds=torch.arange(3),
        positions=torch.arange(3),
    )
    for row, token in enumerate(masked_sample(logits, sampled).tolist()):
        assert token in allowed[row]


def test_repetition_counts_prompt_and_output_and_the_others_output_only() -> None:
    logits = torch.ones(2, 8)
    logits[:, 5] = 2.0
    history = TokenHistory(
        rows=torch.tensor([0, 0, 1, 1]),
        tokens=torch.tensor([5, 6, 5, 6]),
        output_counts=torch.tensor([0.0, 0.0, 0.0, 0.0]),
        repetition_penalty=torch.tensor([1.0, 4.0]),
        presence_penalty=torch.tensor([1.5, 0.0]),
        frequency_penalty=torch.tensor([1.5, 0.0]),
    )
    assert masked_sample(logits, SamplingRows(history=history)).tolist() == [5, 0]


def test_frequency_grows_with_the_count_and_presence_does_not() -> None:
    logits = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    history = TokenHistory(
        rows=torch.tensor([0, 1]),
        tokens=torch.tensor([0, 0]),
        output_counts=torch.tensor([3.0, 3.0]),
        repetition_penalty=torch.ones(2),
        presence_penalty=torch.tensor([0.9, 0.0]),
        frequency_penalty=torch.tensor([0.0, 0.4]),
    )
    assert masked_sample(logits, SamplingRows(history=history)).tolist() == [0, 1]


def test_negative_logits_are_multiplied_by_the_repetition_penalty() -> None:
    history = TokenHistory(
        rows=torch.tensor([0]),
        tokens=torch.tensor([0]),
        output_counts=torch.tensor([1.0]),
        repetition_penalty=torch.tensor([2.0]),
        presence_penalty=torch.zeros(1),
        frequency_penalty=torch.zeros(1),
    )
    assert masked_sample(torch.tensor([[-1.0, -1.5]]), SamplingRows(history=history)).tolist() == [1]


def test_bias_moves_the_choice_and_leaves_the_logits_alone() -> None:
    logits = torch.tensor([[1.0, 0.0, 0.0]])
    bias = LogitBias(rows=torch.tensor([0]), tokens=torch.tensor([2]), values=torch.tensor([5.0]))
    assert masked_sample(logits, SamplingRows(bias=bias)).tolist() == [2]
    assert logits.tolist() == [[1.0, 0.0, 0.0]]


@given(st.integers(0, 1000), st.integers(0, 500), st.floats(0.01, 1.0))
def test_a_border_beyond_the_first_candidates_is_found(seed: int, top_k: int, top_p: float) -> None:
    """Flat distributions need the whole sort; the set of kept tokens equals a plain definition."""
    logits = torch.randn(400, generator=torch.Generator().manual_seed(seed)) * 0.2
    order = sorted(range(400), key=lambda token: (-float(logits[token]), token))
    order = order[: top_k or 400]
    weights = torch.softmax(logits[order].double(), -1).tolist()
    allowed: set[int] = set()
    before = 0.0
    for token, weight in zip(order, weights, strict=True):
        if before < top_p + 1e-5 or not allowed:
            allowed.add(token)
        before += weight
    assert set(draws(logits, 50, top_k=top_k, top_p=top_p, seed=seed).tolist()) <= allowed


def test_logprobs_are_the_models_own() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    expected = torch.log_softmax(logits, -1)
    for top in (0, 1, 4):
        chosen, ids, values = token_logprobs(logits, torch.tensor([1]), top)
        torch.testing.assert_close(chosen, expected[:, 1])
        assert ids.tolist() == [list(range(top))]
        torch.testing.assert_close(values, expected[:, :top])


def test_equal_logprobs_are_listed_by_id() -> None:
    _, ids, _ = token_logprobs(torch.zeros(1, 600), torch.tensor([3]), 4)
    assert ids.tolist() == [[0, 1, 2, 3]]


def test_no_rows_are_no_problem() -> None:
    assert masked_sample(torch.empty(0, 7), SamplingRows()).tolist() == []


@given(data=st.data(), rows=st.integers(0, 4), vocabulary=st.sampled_from([1, 5, 33, 600, 1300]))
def test_the_native_twin_draws_what_the_reference_draws(
    data: st.DataObject, rows: int, vocabulary: int
) -> None:
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10_000)))
    logits = torch.randn(rows, vocabulary, generator=generator) * data.draw(st.sampled_from([0.1, 2.0, 8.0]))

    def some(values: list[float]) -> Tensor | None:
        drawn = data.draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows))
        return data.draw(st.sampled_from([None, torch.tensor(drawn, dtype=torch.float32)]))

    def whole(values: list[int]) -> Tensor:
        return torch.tensor(
            data.draw(st.lists(st.sampled_from(values), min_size=rows, max_size=rows)), dtype=torch.int64
        )

    allowed = [
        sorted({row % vocabulary, *torch.randint(0, vocabulary, (vocabulary,), generator=generator).tolist()})
        for row in range(rows)
    ]
    spread = torch.randperm(rows * vocabulary, generator=generator)[: rows * vocabulary // 3].sort().values
    history = TokenHistory(
        rows=spread // vocabulary,
        tokens=spread % vocabulary,
        output_counts=torch.randint(0, 3, spread.shape, generator=generator).float(),
        repetition_penalty=torch.full((rows,), 1.3),
        presence_penalty=torch.full((rows,), 0.2),
        frequency_penalty=torch.full((rows,), 0.1),
    )
    bias = LogitBias(
        rows=spread // vocabulary,
        tokens=spread % vocabulary,
        values=torch.randn(spread.shape, generator=generator),
    )
    parameters = SamplingRows(
        temperature=some([0.0, 0.5, 1.0, 3.0]),
        top_k=data.draw(st.sampled_from([None, whole([0, 1, 3, 300, 5000])])),
        top_p=some([1.0, 0.9, 0.3, 1e-9]),
        min_p=some([0.0, 0.05, 1.0]),
        seeds=whole([0, 1, 2**40 + 3, 2**63 - 1]),
        positions=whole([0, 7, 2**33]),
        masks=data.draw(st.sampled_from([None, pack(allowed, vocabulary) if rows else None])),
        history=data.draw(st.sampled_from([None, history])),
        bias=data.draw(st.sampled_from([None, bias])),
    )
    before = logits.clone()
    assert (
        native.masked_sample(logits, parameters).tolist()
        == reference.masked_sample(logits, parameters).tolist()
    )
    assert torch.equal(before, logits)


@given(
    seed=st.integers(0, 1000),
    rows=st.integers(1, 3),
    vocabulary=st.sampled_from([1, 7, 700]),
    top=st.integers(0, 9),
)
def test_the_native_twin_finds_the_same_logprobs(seed: int, rows: int, vocabulary: int, top: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, vocabulary, generator=generator) * 4).round(decimals=1)  # with ties
    tokens = torch.randint(0, vocabulary, (rows,), generator=generator)
    expected = reference.token_logprobs(logits, tokens, top)
    found = native.token_logprobs(logits, tokens, top)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-5, atol=1e-5)
    assert found[1].tolist() == expected[1].tolist()
    torch.testing.assert_close(found[2], expected[2], rtol=1e-5, atol=1e-5)


BOTH = pytest.mark.parametrize("twin", [native, reference], ids=["native", "reference"])
NAN, INF = math.nan, math.inf


@BOTH
@pytest.mark.parametrize("temperature", [None, 1.0])
def test_a_row_without_a_number_gives_no_token(twin: ModuleType, temperature: float | None) -> None:
    logits = torch.tensor([[NAN, NAN, NAN], [-INF, -INF, NAN], [NAN, 1.0, -INF], [0.0, 9.0, 0.0]])
    rows = SamplingRows(
        temperature=None if temperature is None else torch.full((4,), temperature),
        top_p=None if temperature is None else torch.full((4,), 0.5),
        seeds=torch.arange(4),
        positions=torch.arange(4),
        masks=pack([[0, 1, 2]] * 3 + [[0]], 3),
    )
    assert twin.masked_sample(logits, rows).tolist() == [-1, -1, 1, 0]
    assert twin.masked_sample(logits, SamplingRows()).tolist() == [-1, -1, 1, 1]


@BOTH
def test_a_mask_that_allows_nothing_gives_no_token(twin: ModuleType) -> None:
    assert twin.masked_sample(torch.zeros(1, 5), SamplingRows(masks=pack([[]], 5))).tolist() == [-1]


@BOTH
def test_only_tokens_with_a_number_are_among_the_best(twin: ModuleType) -> None:
    logits = torch.tensor([[NAN, NAN, NAN, NAN], [-INF, 1.0, -INF, 0.0]])
    chosen, ids, values = twin.token_logprobs(logits, torch.tensor([0, 1]), 3)
    assert ids.tolist() == [[-1, -1, -1], [1, 3, -1]]
    assert bool(chosen[0].isnan()) and bool(chosen[1].isfinite())
    assert (values == -INF).tolist() == [[True] * 3, [False, False, True]]


@BOTH
@pytest.mark.parametrize("token", [5, 4096, 2**40])
def test_tokens_outside_the_logits_are_refused(twin: ModuleType, token: int) -> None:
    at = {"rows": torch.tensor([0]), "tokens": torch.tensor([token])}
    none = torch.ones(1)
    history = TokenHistory(
        **at, output_counts=none, repetition_penalty=none, presence_penalty=none, frequency_penalty=none
    )
    logits = torch.zeros(1, 5)
    with pytest.raises(IndexError):
        twin.masked_sample(logits, SamplingRows(history=history))
    with pytest.raises(IndexError):
        twin.masked_sample(logits, SamplingRows(bias=LogitBias(**at, values=none)))
    with pytest.raises((IndexError, RuntimeError)):
        twin.token_logprobs(logits, torch.tensor([token]), 0)


def test_the_native_twin_refuses_entries_out_of_order() -> None:
    bias = LogitBias(rows=torch.tensor([1, 0]), tokens=torch.tensor([0, 0]), values=torch.ones(2))
    with pytest.raises(IndexError, match="out of order"):
        native.masked_sample(torch.zeros(2, 5), SamplingRows(bias=bias))
