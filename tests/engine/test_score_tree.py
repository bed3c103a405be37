"""Scoring several continuations at once gives what scoring each alone gives, and computes what they share once."""

from __future__ import annotations

import pytest
from engine_driver import Driver
from hypothesis import given, settings
from hypothesis import strategies as st

from sgrt.engine.score_tree import ScoreTree

PREFIX = (5, 6, 7, 8, 9)
continuations = st.lists(st.lists(st.integers(0, 3), max_size=6), min_size=1, max_size=8)


@settings(max_examples=60)
@given(continuations, st.integers(12, 30))
def test_scores_equal_those_of_each_text_alone(texts: list[list[int]], step_tokens: int) -> None:
    together = Driver(step_tokens=step_tokens)
    if not any(texts):
        assert [score.logprobs for score in ScoreTree(texts).scores(5, {})] == [()] * len(texts)
        return
    scored = together.score(PREFIX, texts)
    together.run()
    for text, score in zip(texts, scored.scores, strict=True):
        assert len(score.logprobs) == len(text)
        assert score.usage.prompt_tokens == len(PREFIX) + len(text)
        if text:
            alone = Driver(num_pages=200, step_tokens=200)
            expected = alone.score(PREFIX, [text])
            alone.run()
            assert score.logprobs == pytest.approx(expected.scores[0].logprobs, abs=1e-5)


@given(continuations)
def test_every_beginning_has_one_row(texts: list[list[int]]) -> None:
    tree = ScoreTree(texts)
    wanted = {tuple(text[:size]) for text in texts for size in range(len(text))}
    rows = [
        path.tokens[: path.first_row + place] for path in tree.paths for place in range(len(path.targets))
    ]
    assert len(rows) == len(set(rows)) and set(rows) == wanted
    for path in tree.paths:
        for place, targets in enumerate(path.targets):
            beginning = path.tokens[: path.first_row + place]
            assert set(targets) == {
                text[len(beginning)]
                for text in texts
                if len(text) > len(beginning) and tuple(text[: len(beginning)]) == beginning
            }


def test_many_tokens_after_one_prefix_take_one_row() -> None:
    driver = Driver()
    scored = driver.score(PREFIX, [(token,) for token in range(30)])
    driver.run()
    assert driver.core.stats.steps == 1 and driver.core.stats.forward_tokens == len(PREFIX)
    assert len({score.total for score in scored.scores}) == 30


def test_a_long_text_is_no_deep_recursion() -> None:
    text = [place % 7 for place in range(20_000)]
    paths = ScoreTree([text, text[:5000]]).paths
    assert [len(path.targets) for path in paths] == [len(text)]
