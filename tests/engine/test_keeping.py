"""Prefixes that a plan shares are kept between their uses, go when the last has begun, and never starve anybody."""

from __future__ import annotations

import pytest
from engine_driver import Collected, Driver

from sgrt.cache.radix import pack_tokens
from sgrt.engine.job import GenerateJob
from sgrt.engine.output_text import OutputText
from sgrt.request import Request
from sgrt_frontend.call import CallPlan, SamplingParams, Share

PREFIX = tuple(range(1, 21))  # five pages of four tokens


class Planned(Driver):
    """A driver of requests that carry a plan."""

    def ask(
        self, prompt: tuple[int, ...], plan: CallPlan | None, *, max_tokens: int = 1, priority: int = 0
    ) -> Collected:
        sink = Collected()
        sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        request = Request(
            id=self._next_id,
            prompt=prompt,
            sampling=sampling,
            max_tokens=max_tokens,
            arrival_s=self.now_s,
            priority=priority,
            plan=plan,
        )
        self._next_id += 1
        job = GenerateJob(
            request=request,
            make_text=lambda: OutputText(Letters(), stops=(), includes_stop=False),
            sink=sink,
        )
        self.core.announce(job)
        self.core.submit(job)
        return sink


class Letters:
    def feed(self, token_ids: object) -> str:
        return ""


def sharing(uses: int, name: str = "p") -> CallPlan:
    return CallPlan(shares=(Share(name=name, num_tokens=len(PREFIX), uses=uses),), group="run")


def cached(sink: Collected) -> int:
    return sink.finish().usage.cached_tokens


def crowd(driver: Planned, count: int = 6) -> None:
    """Requests that have nothing to do with the plan and fill the pool."""
    for number in range(count):
        driver.ask(tuple((place * 7 + number) % 30 for place in range(24)), None)
        driver.run()


def test_a_shared_prefix_outlives_a_crowd_until_its_last_use_begins() -> None:
    driver = Planned(num_pages=16)
    driver.ask((*PREFIX, 30), sharing(uses=3))
    driver.run()
    crowd(driver)
    second = driver.ask((*PREFIX, 31), sharing(uses=3))
    driver.run()
    assert cached(second) == len(PREFIX)
    assert driver.core.stats.pages_needed == 5
    crowd(driver)
    third = driver.ask((*PREFIX, 32), sharing(uses=3))
    driver.run()
    assert cached(third) == len(PREFIX)
    assert driver.core.stats.pages_needed == 0, "nobody will begin with it again"
    crowd(driver)
    late = driver.ask((*PREFIX, 33), None)
    driver.run()
    assert cached(late) == 0


def test_a_prompt_needs_all_its_pages_from_the_first_chunk_on() -> None:
    driver = Planned(num_pages=16, step_tokens=8)
    driver.ask((*PREFIX, 30), None)
    driver.step()
    assert (driver.core.stats.pages_used, driver.core.stats.pages_needed) == (2, 6)
    driver.run()
    assert driver.core.stats.peak_pages_needed == 6


def test_what_a_plan_is_done_with_is_evicted_before_what_others_used_earlier() -> None:
    driver = Planned(num_pages=16)
    older = tuple(range(5, 29))
    driver.ask(older, None)
    driver.run()
    driver.ask((*PREFIX, 30), CallPlan())
    driver.run()
    driver.ask(tuple(29 - place for place in range(24)), None)  # takes what is free, and six pages more
    driver.run()
    again = driver.ask((*older, 30), None)
    driver.run()
    assert cached(again) == len(older)


def test_the_end_of_an_unfinished_page_is_kept_too() -> None:
    driver = Planned(num_pages=16, page_tokens=8)
    plan = CallPlan(shares=(Share(name="p", num_tokens=20, uses=2),))
    driver.ask((*PREFIX, 30, 31, 32, 33, 34), plan)
    driver.run()
    crowd(driver)
    second = driver.ask((*PREFIX, 25), plan)
    driver.run()
    assert cached(second) == len(PREFIX)


def test_a_share_of_an_output_is_kept_to_its_last_computed_token() -> None:
    driver = Planned(num_pages=16)
    plan = CallPlan(shares=(Share(name="all", num_tokens=None, uses=2),))
    first = driver.ask(PREFIX, plan, max_tokens=6)
    driver.run()
    crowd(driver)
    text = (*PREFIX, *first.tokens())
    second = driver.ask((*text, 3), CallPlan(shares=(Share(name="all", num_tokens=25, uses=2),)))
    driver.run()
    assert cached(second) == len(text) - 1


def test_all_texts_that_a_call_scores_are_one_use_and_keep_what_they_share() -> None:
    driver = Planned(num_pages=64, max_running=2)
    plan = sharing(uses=2)
    texts = [(number, number + 1) for number in range(6)]
    driver.score((*PREFIX, 30), texts, plan=plan)
    driver.step()
    driver.step()
    assert driver.core.scheduler.num_waiting and driver.core.stats.pages_needed >= 5
    driver.run()
    assert driver.core.stats.pages_needed == 5, "one use is left"
    driver.score((*PREFIX, 31), texts, plan=plan)
    driver.run()
    assert driver.core.stats.pages_needed == 0


def test_kept_prefixes_give_way_to_a_request_that_needs_the_pool() -> None:
    driver = Planned(num_pages=10)
    driver.ask((*PREFIX, 30), sharing(uses=9))
    driver.run()
    large = driver.ask(tuple(place % 30 for place in range(38)), None)
    driver.run()
    assert large.is_closed and large.error is None
    driver.core.scheduler.flush_cache()
    assert driver.core.scheduler.allocator.num_free == 10


def test_forgotten_plans_do_not_fill_memory() -> None:
    driver = Planned(num_pages=16)
    driver.ask((*PREFIX, 30), sharing(uses=2, name="forgotten"))
    driver.run()
    kept = driver.core.scheduler._book.kept
    for number in range(kept.MAX_AGE + 1):
        driver.ask((number % 30, 5), CallPlan())
        if number % 64 == 0:
            driver.run()
    driver.run()
    assert len(kept) == 0


def test_a_cold_request_is_not_starved_by_a_stream_of_warm_and_urgent_ones() -> None:
    driver = Planned(num_pages=24, max_running=2, step_tokens=16)
    aging = int(driver.limits.aging_s)
    urgent = CallPlan(shares=sharing(uses=10_000).shares, path_s=1e6)
    for number in range(4):
        driver.ask((*PREFIX, number), urgent, max_tokens=3)
    cold = driver.ask(tuple(29 - place % 30 for place in range(16)), None)
    arrived = driver.now_s
    finished_at = None
    for number in range(40 * aging):
        driver.ask((*PREFIX, number % 30, number % 7), urgent, max_tokens=3)  # more than two places can serve
        driver.step()
        if cold.is_closed:
            finished_at = driver.now_s
            break
    assert finished_at is not None, "the cold request starves"
    served = 4 + aging + 1  # those before it, and those that came within a level of priority behind it
    assert finished_at - arrived <= 3 * served


def test_a_kept_prefix_does_not_keep_requests_from_running_side_by_side() -> None:
    driver = Planned(num_pages=16)
    driver.ask(tuple(range(1, 39)), CallPlan(shares=(Share(name="p", num_tokens=None, uses=1000),)))
    driver.run()
    assert driver.core.scheduler.tree.num_evictable_pages < 4, "most of the pool is kept"
    crowd = [
        driver.ask(tuple((place * 7 + n) % 30 for place in range(12)), None, max_tokens=4) for n in range(3)
    ]
    driver.step()
    driver.step()
    assert driver.core.scheduler.num_running == 3
    driver.run()
    assert all(sink.is_closed and sink.error is None for sink in crowd)
    assert driver.core.stats.preemptions == 0


def test_kept_prefixes_go_before_anybody_is_preempted() -> None:
    driver = Planned(num_pages=16)
    driver.ask((*PREFIX, 30), sharing(uses=1000))
    driver.run()
    low = driver.ask(tuple(range(12)), None, max_tokens=12)
    driver.step()
    driver.ask(tuple(range(15, 37)), None, priority=5)
    driver.run()
    assert driver.core.stats.preemptions == 0 and low.error is None


def test_kept_prefixes_are_not_given_up_where_that_makes_no_room() -> None:
    driver = Planned(num_pages=16)
    driver.ask((*PREFIX, 30), sharing(uses=9))
    driver.run()
    driver.ask(tuple(range(10, 34)), None, max_tokens=12)  # runs for long, in pages of its own
    driver.step()
    large = driver.ask(tuple(place % 30 for place in range(44)), None)
    for _ in range(4):
        driver.step()
    assert driver.core.scheduler.num_waiting == 1 and len(driver.core.scheduler._book.kept) == 1
    second = driver.ask((*PREFIX, 31), sharing(uses=9))
    driver.run()
    assert large.error is None and second.error is None


SYSTEM = PREFIX[:16]
ONE, OTHER = CallPlan(group="one"), CallPlan(group="other")


@pytest.mark.parametrize(
    "plans",
    [
        (None, None),
        (None, CallPlan()),
        (CallPlan(), CallPlan()),
        (None, ONE),
        (ONE, OTHER),
        (None, sharing(uses=1)),
        (ONE, None, ONE),
        (ONE, OTHER, ONE),
    ],
)
@pytest.mark.parametrize("seals_pages", [False, True])
def test_what_other_calls_use_as_well_is_not_given_up_with_a_plan(
    plans: tuple[CallPlan | None, ...], seals_pages: bool
) -> None:
    driver = Planned(num_pages=16, seals_pages=seals_pages)
    driver.ask((9, *(place % 30 for place in range(19))), None)  # used longest ago
    driver.run()
    for plan in plans:
        driver.ask((*SYSTEM, 30, 31, 32), plan)
        driver.run()
    driver.ask(tuple(-place % 30 for place in range(36)), None)
    driver.run()
    late = driver.ask((*SYSTEM, 3, 4, 5), None)
    driver.run()
    assert cached(late) == 16


def test_what_calls_of_one_group_alone_have_used_goes_first_when_they_are_over() -> None:
    driver = Planned(num_pages=16)
    older = tuple(place % 30 for place in range(9, 28))
    driver.ask(older, None)
    driver.run()
    for number in range(2):
        driver.ask((*SYSTEM, 30 + number), sharing(uses=2))
        driver.run()
    driver.ask(tuple(-place % 30 for place in range(36)), None)
    driver.run()
    assert driver.core.scheduler.tree.peek(pack_tokens(older)) > 16
    assert driver.core.scheduler.tree.peek(pack_tokens(SYSTEM)) < 16
