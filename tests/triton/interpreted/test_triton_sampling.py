"""Masked sampling in Triton draws the tokens its reference draws."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from sgrt_kernels.ops.masked_sample import reference
from sgrt_kernels.ops.masked_sample import triton as kernels
from sgrt_kernels.ops.masked_sample.rows import LogitBias, SamplingRows, TokenHistory

VOCABULARY = 1000
ROWS = 6


def logits(seed: int = 0, *, rows: int = ROWS, vocabulary: int = VOCABULARY) -> Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * 3


def random_masks(share: float, *, rows: int = ROWS, vocabulary: int = VOCABULARY) -> Tensor:
    allowed = torch.rand(rows, vocabulary, generator=torch.Generator().manual_seed(1)) < share
    allowed[:, 7] = True
    words = -(-vocabulary // 32)
    padded = torch.zeros(rows, words * 32, dtype=torch.int64)
    padded[:, :vocabulary] = allowed
    values = (padded.view(rows, words, 32) << torch.arange(32)).sum(-1)
    return torch.where(values >= 2**31, values - 2**32, values).to(torch.int32)


def sampling(**changes: Tensor | TokenHistory | LogitBias | None) -> SamplingRows:
    base = SamplingRows(
        temperature=torch.tensor([1.0, 0.7, 1.5, 0.0, 1.0, 0.3]),
        seeds=torch.tensor([0, 1, 2**40 + 3, 4, 5, 2**33]),
        positions=torch.tensor([0, 5, 17, 3, 2**33 + 1, 9]),
    )
    return replace(base, **changes)  # type: ignore[arg-type]  # one dict of several types


CASES = {
    "plain": sampling(),
    "masked": sampling(masks=random_masks(0.3)),
    "one allowed": sampling(masks=random_masks(0.0)),
    "top-k": sampling(top_k=torch.tensor([1, 5, 0, 3, 50, 999])),
    "top-k beyond the mask": sampling(top_k=torch.full((ROWS,), 30), masks=random_masks(0.01)),
    "top-p": sampling(top_p=torch.tensor([0.5, 0.9, 1.0, 0.1, 0.01, 0.99])),
    "min-p": sampling(min_p=torch.tensor([0.1, 0.0, 0.5, 0.1, 1.0, 0.01])),
    "all filters": sampling(
        top_k=torch.tensor([10, 5, 200, 3, 50, 0]),
        top_p=torch.tensor([0.5, 0.9, 0.8, 0.1, 0.95, 0.7]),
        min_p=torch.full((ROWS,), 0.02),
        masks=random_masks(0.5),
    ),
    "greedy": SamplingRows(masks=random_masks(0.5)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_tokens_are_drawn(name: str) -> None:
    for seed in range(2):
        expected = reference.masked_sample(logits(seed), CASES[name])
        assert torch.equal(kernels.masked_sample(logits(seed), CASES[name], block=256), expected)


def test_equal_scores_at_the_border_stay_by_lowest_id() -> None:
    scores = torch.zeros(ROWS, 64)
    scores[:, 40:] = 1.0
    rows = sampling(
        top_k=torch.tensor([3, 24, 30, 0, 0, 5]),
        top_p=torch.tensor([1.0, 1.0, 1.0, 1.0, 0.3, 0.5]),
        temperature=torch.ones(ROWS),
    )
    for position in range(3):
        moved = replace(rows, positions=torch.full((ROWS,), position))
        assert torch.equal(
            kernels.masked_sample(scores, moved, block=32), reference.masked_sample(scores, moved)
        )


def test_penalties_and_bias_come_before_the_mask() -> None:
    history = TokenHistory(
        rows=torch.tensor([0, 0, 1, 4]),
        tokens=torch.tensor([3, 900, 14, 7]),
        output_counts=torch.tensor([0.0, 2.0, 1.0, 5.0]),
        repetition_penalty=torch.tensor([1.3, 1.0, 1.0, 1.0, 2.0, 1.0]),
        presence_penalty=torch.full((ROWS,), 0.5),
        frequency_penalty=torch.full((ROWS,), 0.25),
    )
    bias = LogitBias(
        rows=torch.tensor([2, 5, 3]),
        tokens=torch.tensor([17, 17, 0]),
        values=torch.tensor([50.0, -3.0, 100.0]),
    )
    rows = sampling(history=history, bias=bias, masks=random_masks(0.5))
    before = logits()
    kept = before.clone()
    assert torch.equal(kernels.masked_sample(before, rows), reference.masked_sample(before, rows))
    assert torch.equal(before, kept)


def test_a_row_does_not_depend_on_its_batch() -> None:
    rows = CASES["all filters"]
    together = kernels.masked_sample(logits(), rows)
    names = ("temperature", "top_k", "top_p", "min_p", "seeds", "positions", "masks")
    for i in range(ROWS):
        alone = replace(rows, **{name: getattr(rows, name)[i : i + 1] for name in names})
        assert torch.equal(kernels.masked_sample(logits()[i : i + 1], alone), together[i : i + 1])


def test_draws_follow_the_masked_distribution() -> None:
    draws = 300
    scores = torch.tensor([[0.0, 1.0, 2.0, -1.0, 5.0, 0.5, 0.0, 1.5]])
    rows = SamplingRows(
        temperature=torch.ones(draws),
        seeds=torch.zeros(draws, dtype=torch.int64),
        positions=torch.arange(draws),
        masks=torch.full((draws, 1), 0b11101111, dtype=torch.int32),
    )
    tokens = kernels.masked_sample(scores.expand(draws, 8).contiguous(), rows)
    expected = scores[0].masked_fill(torch.arange(8) == 4, float("-inf")).softmax(-1)
    found = torch.bincount(tokens, minlength=8) / draws
    assert found[4] == 0
    assert float((found - expected).abs().sum()) / 2 < 0.09


@pytest.mark.slow
def test_a_real_vocabulary_agrees() -> None:
    size = 128_256
    rows = replace(
        CASES["all filters"],
        masks=random_masks(0.5, vocabulary=size),
        top_k=torch.tensor([10, 5, 200, 3, 5000, 0]),
    )
    scores = logits(3, vocabulary=size)
    assert torch.equal(
        kernels.masked_sample(scores, rows, block=16384), reference.masked_sample(scores, rows)
    )
