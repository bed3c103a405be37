"""The terms of scores: a higher priority goes first, and a salt parts the cache, as with calls that generate."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest
from scripted_engine import scripted_engine

from sgrt.engine.engine import Engine
from sgrt.errors import InvalidRequest
from sgrt_frontend.call import Call, SamplingParams, ScoreTerms

BUSY, LOW, HIGH = 65, 66, 67


class HeldScript:
    """Writes down the first token of every prompt it is asked about, and computes nothing until it is released."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.begun = threading.Event()
        self.released = threading.Event()

    def __call__(self, prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        self.begun.set()
        assert self.released.wait(10), "nobody released the script"
        if prompt[0] not in self.asked:
            self.asked.append(prompt[0])
        return {}


def prefix(first: int) -> tuple[int, ...]:
    return (first, *range(40, 50))


async def score_all(engine: Engine, held: HeldScript, asked: Sequence[tuple[int, ScoreTerms]]) -> None:
    """Have several scores wait behind a call that runs, then let it all go."""
    with engine.submit(Call(prompt=prefix(BUSY), sampling=SamplingParams(max_tokens=2))):
        await asyncio.to_thread(held.begun.wait, 10)
        tasks = [
            asyncio.create_task(engine.score(prefix(first), [(70,), (71, 72)], terms))
            for first, terms in asked
        ]
        await asyncio.sleep(0)  # each task submits before it waits
        held.released.set()
        await asyncio.gather(*tasks)


def test_scores_of_a_higher_priority_go_first() -> None:
    held = HeldScript()
    with scripted_engine(held, settings={"max_running": 1}) as engine:
        asked = [(LOW, ScoreTerms()), (HIGH, ScoreTerms(priority=1))]
        asyncio.run(score_all(engine, held, asked))
    assert held.asked[-2:] == [HIGH, LOW]


def test_scores_of_equal_priority_go_in_the_order_they_came() -> None:
    held = HeldScript()
    with scripted_engine(held, settings={"max_running": 1}) as engine:
        asyncio.run(score_all(engine, held, [(LOW, ScoreTerms()), (HIGH, ScoreTerms())]))
    assert held.asked[-2:] == [LOW, HIGH]


def test_a_salt_parts_the_cache_of_scores() -> None:
    with scripted_engine(lambda prompt, output: {}) as engine:
        pages = tuple(range(40, 90))

        def cached(salt: str) -> int:
            (score,) = asyncio.run(engine.score(pages, [(70,)], ScoreTerms(cache_salt=salt)))
            return score.usage.cached_tokens

        assert cached("a") == 0 and cached("a") > 0 and cached("b") == 0


def test_terms_are_checked_where_they_are_made() -> None:
    with pytest.raises(InvalidRequest) as refused:
        ScoreTerms(priority=2**31)
    assert refused.value.param == "priority"
