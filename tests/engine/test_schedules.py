"""Random schedules: whatever arrives, is cancelled, preempted or chunked, each request gets the tokens it gets alone.

The script's logits depend on every token the pages show, so a wrong page, a lost token or a wrong copy changes the
output; every count is checked after every step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pytest
from engine_driver import END, Collected, Driver, alone
from hypothesis import given, settings
from hypothesis import strategies as st
from word_grammar import WordGrammar

from sgrt.engine.job import GenerateJob
from sgrt_frontend.call import StopReason

WORDS = WordGrammar([(1, 2, 3, 4, 5), (1, 2, 3, 9, 9, 9), (7, 8), (1, 2, 2, 2, 2, 2, 2, 2)], end_token_id=END)


@dataclass(frozen=True)
class Ask:
    """One request of a random schedule."""

    prompt: tuple[int, ...]
    arrives: int
    max_tokens: int
    n: int = 1
    temperature: float = 0.0
    is_constrained: bool = False
    priority: int = 0
    salt: str = ""
    cancelled_after: int | None = None

    @property
    def options(self) -> dict[str, object]:
        return {
            "max_tokens": self.max_tokens,
            "n": self.n,
            "temperature": self.temperature,
            "seed": len(self.prompt),
            "grammar": WORDS if self.is_constrained else None,
        }


@lru_cache(maxsize=4096)
def expected(ask: Ask) -> list[list[int]]:
    return alone(ask.prompt, **ask.options)


_PREFIXES = [tuple((5 * place + kind) % 30 for place in range(40)) for kind in range(2)]


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    prefix = draw(st.sampled_from(_PREFIXES))[: draw(st.integers(0, 40))]
    rest = draw(st.lists(st.integers(0, 2), min_size=1, max_size=6))
    return Ask(
        prompt=(*prefix, *rest),
        arrives=draw(st.integers(0, 12)),
        max_tokens=draw(st.integers(8, 14)),
        n=draw(st.sampled_from([1, 1, 1, 3])),
        temperature=draw(st.sampled_from([0.0, 1.0])),
        is_constrained=draw(st.booleans()),
        priority=draw(st.integers(0, 2)),
        salt=draw(st.sampled_from(["", "", "tenant"])),
        cancelled_after=draw(st.sampled_from([None, None, None, 2, 6])),
    )


def serve(driver: Driver, schedule: list[Ask]) -> list[Collected]:
    """Run a schedule to its end; every sink in the order of `schedule`."""
    sinks: dict[int, Collected] = {}
    jobs: dict[int, GenerateJob] = {}
    step = 0
    while driver.core.has_work or len(sinks) < len(schedule):
        for place, ask in enumerate(schedule):
            if ask.arrives == step:
                jobs[place], sinks[place] = driver.submit(
                    ask.prompt,
                    priority=ask.priority,
                    salt=ask.salt,
                    **ask.options,  # type: ignore[arg-type]  # test keywords
                )
            if ask.cancelled_after is not None and step == ask.arrives + ask.cancelled_after:
                driver.core.cancel(jobs[place])
        driver.step()
        step += 1
        assert step < 5000, "the engine does not come to an end"
    return [sinks[place] for place in range(len(schedule))]


@settings(max_examples=150)
@given(
    schedule=st.lists(asks(), min_size=1, max_size=7),
    page_tokens=st.sampled_from([1, 4, 5]),
    spare_pages=st.integers(0, 20),
    step_tokens=st.integers(12, 40),
    max_running=st.integers(1, 6),
    max_draft_tokens=st.sampled_from([0, 3, 8]),
    seals_pages=st.booleans(),
)
def test_every_schedule_gives_the_tokens_of_each_request_alone(
    schedule: list[Ask],
    page_tokens: int,
    spare_pages: int,
    step_tokens: int,
    max_running: int,
    max_draft_tokens: int,
    seals_pages: bool,
) -> None:
    largest = max(len(ask.prompt) + ask.max_tokens - 1 for ask in schedule)
    driver = Driver(
        num_pages=-(-largest // page_tokens) + spare_pages,
        page_tokens=page_tokens,
        step_tokens=max(step_tokens, max_running + page_tokens),
        max_running=max_running,
        max_draft_tokens=max_draft_tokens,
        seals_pages=seals_pages,
    )
    for ask, sink in zip(schedule, serve(driver, schedule), strict=True):
        assert sink.is_closed and sink.error is None
        for index, tokens in enumerate(expected(ask)):
            if sink.finish(index).reason is StopReason.CANCELLED:
                assert sink.tokens(index) == tokens[: len(sink.tokens(index))]
            else:
                assert sink.tokens(index) == tokens
    driver.core.scheduler.flush_cache()
    assert driver.core.scheduler.allocator.num_free == driver.limits.num_pages
    assert driver.core.scheduler.allocator.num_free_tails == driver.limits.num_tail_pages


@pytest.mark.parametrize("seals_pages", [False, True])
def test_a_pool_far_too_small_for_the_load_finishes_everything(seals_pages: bool) -> None:
    schedule = [Ask(prompt=(*_PREFIXES[0][:30], n), arrives=n % 3, max_tokens=14) for n in range(24)]
    driver = Driver(num_pages=12, page_tokens=4, max_running=16, step_tokens=40, seals_pages=seals_pages)
    sinks = serve(driver, schedule)
    assert [sink.tokens() for sink in sinks] == [expected(ask)[0] for ask in schedule]
    assert driver.core.stats.preemptions > 0
    assert driver.core.stats.evicted_pages > 0


def test_a_preempted_constrained_request_goes_on_where_it_was() -> None:
    schedule = [
        Ask(prompt=(*_PREFIXES[kind], 1), arrives=kind, max_tokens=14, is_constrained=kind == 1)
        for kind in (0, 1)
    ]
    driver = Driver(num_pages=24, page_tokens=4, max_draft_tokens=0, max_running=2)
    sinks = serve(driver, schedule)
    assert [sink.tokens() for sink in sinks] == [expected(ask)[0] for ask in schedule]


def test_a_twin_of_a_finished_request_grows_to_the_whole_pool() -> None:
    driver = Driver(num_pages=3, page_tokens=32, max_running=2, step_tokens=64, max_draft_tokens=0)
    options = {"ignore_eos": True}
    _, first = driver.submit((1, 2, 3), max_tokens=1, **options)  # type: ignore[arg-type]  # test keywords
    _, second = driver.submit((1, 2, 3), max_tokens=94, **options)  # type: ignore[arg-type]  # test keywords
    driver.run()
    assert second.tokens() == alone((1, 2, 3), max_tokens=94, **options)[0]
    assert first.tokens() == second.tokens()[:1]


@st.composite
def small_asks(draw: st.DrawFn) -> Ask:
    """Prompts of a few tokens, often the same ones; many end at once."""
    return Ask(
        prompt=tuple(draw(st.lists(st.integers(0, 1), min_size=1, max_size=5))),
        arrives=draw(st.integers(0, 4)),
        max_tokens=draw(st.sampled_from([1, 1, 2, 9, 21])),
        priority=draw(st.integers(0, 1)),
        cancelled_after=draw(st.sampled_from([None, None, 1])),
    )


@settings(max_examples=150)
@given(
    schedule=st.lists(small_asks(), min_size=2, max_size=6),
    page_tokens=st.sampled_from([4, 8, 32]),
    max_running=st.integers(1, 4),
    seals_pages=st.booleans(),
)
def test_short_requests_finish_in_a_pool_of_exactly_the_largest_one(
    schedule: list[Ask], page_tokens: int, max_running: int, seals_pages: bool
) -> None:
    largest = max(len(ask.prompt) + ask.max_tokens - 1 for ask in schedule)
    driver = Driver(
        num_pages=-(-largest // page_tokens),
        page_tokens=page_tokens,
        step_tokens=max_running + page_tokens,
        max_running=max_running,
        seals_pages=seals_pages,
    )
    for ask, sink in zip(schedule, serve(driver, schedule), strict=True):
        if sink.finish().reason is not StopReason.CANCELLED:
            assert sink.tokens() == expected(ask)[0]


@pytest.mark.slow
@settings(max_examples=1500)
@given(
    schedule=st.lists(asks(), min_size=3, max_size=20),
    page_tokens=st.sampled_from([1, 2, 4, 8]),
    spare_pages=st.integers(0, 30),
    max_running=st.integers(1, 12),
    seals_pages=st.booleans(),
)
def test_long_schedules_give_the_tokens_of_each_request_alone(
    schedule: list[Ask], page_tokens: int, spare_pages: int, max_running: int, seals_pages: bool
) -> None:
    largest = max(len(ask.prompt) + ask.max_tokens - 1 for ask in schedule)
    driver = Driver(
        num_pages=-(-largest // page_tokens) + spare_pages,
        page_tokens=page_tokens,
        step_tokens=max_running + page_tokens + 10,
        max_running=max_running,
        seals_pages=seals_pages,
    )
    for ask, sink in zip(schedule, serve(driver, schedule), strict=True):
        for index, tokens in enumerate(expected(ask)):
            if sink.finish(index).reason is not StopReason.CANCELLED:
                assert sink.tokens(index) == tokens


def test_a_higher_priority_takes_a_place_at_once_and_the_one_that_lost_it_goes_on_later() -> None:
    driver = Driver(max_running=2, step_tokens=16)
    low = [driver.submit((number, 2, 3), max_tokens=20, ignore_eos=True)[1] for number in (1, 2)]
    driver.step()
    _, high = driver.submit((3, 2, 3), max_tokens=4, ignore_eos=True, priority=1)
    driver.step()
    assert len(high.tokens()) == 1
    assert driver.core.stats.preemptions == 1
    driver.run()
    for number, sink in enumerate((*low, high), start=1):
        expected_tokens = alone((number, 2, 3), max_tokens=len(sink.tokens()), ignore_eos=True)[0]
        assert sink.tokens() == expected_tokens
    assert [len(sink.tokens()) for sink in low] == [20, 20]


def test_a_higher_priority_does_not_wait_for_a_long_prompt_or_for_its_pages() -> None:
    driver = Driver(num_pages=20, max_running=2, step_tokens=8)
    long = tuple(place % 30 for place in range(70))
    _, low = driver.submit(long, max_tokens=4, ignore_eos=True)
    driver.step()
    _, high = driver.submit((31, 2, 3, 4, 5, 6), max_tokens=4, ignore_eos=True, priority=1)
    driver.step()
    assert len(high.tokens()) == 1
    driver.run()
    assert low.tokens() == alone(long, max_tokens=4, ignore_eos=True)[0]


def test_equal_priorities_never_take_places_from_each_other() -> None:
    driver = Driver(max_running=1)
    _, first = driver.submit((1, 2, 3), max_tokens=6, ignore_eos=True, priority=1)
    driver.step()
    _, second = driver.submit((2, 2, 3), max_tokens=6, ignore_eos=True, priority=1)
    driver.step()
    assert first.tokens() and not second.tokens()
    driver.run()
    assert driver.core.stats.preemptions == 0
