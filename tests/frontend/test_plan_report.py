"""What a plan shows and advises: its report, and its lints."""

from __future__ import annotations

import re

from five_words import five_words
from planned_programs import chat, chosen

from sgrt_frontend.expression import assistant, system, user
from sgrt_frontend.gen import gen
from sgrt_frontend.planning.lint import lint
from sgrt_frontend.planning.plan import PlanOptions, ProgramPlan
from sgrt_frontend.planning.report import report
from sgrt_frontend.program import Program, function
from sgrt_frontend.state import State


def advice(program: Program[..., object]) -> list[str]:
    planned = program.on(five_words()).plan_open()
    return [item.message for item in lint(planned)]


def test_variable_text_before_a_constant_is_pointed_out() -> None:
    @function
    def program(s: State, document: str) -> None:
        s += user(document + "\n\nSummarize the text above in one short sentence, then stop.")
        s += assistant(gen("x", max_tokens=5))

    [message] = advice(program)
    assert re.search(r"moving the constant before it shares \d+ more tokens", message)
    assert "Summarize the text above" in message


def test_constants_before_variable_text_need_no_advice() -> None:
    @function
    def program(s: State, document: str) -> None:
        s += system("Summarize the text in one short sentence, then stop.") + user(document)
        s += assistant(gen("x", max_tokens=5))

    assert advice(program) == []


def test_text_that_branches_share_may_stand_before_their_constants() -> None:
    @function
    def program(s: State, document: str) -> None:
        s.system("You are brief.")
        with s.user():
            s += document + "\n\n"
            forks = s.fork(2)
        forks += ["Summarize the text above in a sentence.", "Translate the text above into French."]
        forks += assistant(gen("x", max_tokens=5))

    assert advice(program) == []


def test_generations_without_a_limit_are_pointed_out() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x")

    assert ["max_tokens" in message for message in advice(program)] == [True]


def test_a_pool_that_is_too_small_is_pointed_out() -> None:
    items = [()] * 8
    fits = chat.on(five_words()).plan_batch(items, PlanOptions(pool_pages=1000))
    small = chat.on(five_words()).plan_batch(items, PlanOptions(pool_pages=2, page_tokens=16))
    assert lint(fits) == []
    [item] = lint(small)
    assert "the pool has 2" in item.message


def test_the_report_has_calls_totals_and_advice() -> None:
    planned: ProgramPlan = chosen.on(five_words()).plan()
    text = report(planned)
    for part in (
        "chosen: one run, 2 paths",
        "s#0",
        "late",
        "planned_programs.py:",
        "best cache hit",
        "peak KV pages",
    ):
        assert part in text
