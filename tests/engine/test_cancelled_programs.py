"""What a program gives up frees its keys and values at once, while the rest of it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from scripted_engine import scripted_engine, tokenizer

import sgrt

A = tokenizer().encode("a")[0]
LONG = 3000


def endless(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    return {A: 30.0}


def pages_left(engine: sgrt.Engine) -> int:
    """Pages that calls hold, once the engine has heard of what was given up."""
    return engine._loop.ask(lambda core: core.stats.pages_needed).result()


@sgrt.function
def cancelling(s: sgrt.State, engine: sgrt.Engine) -> int:
    s += "q"
    long, short = s.fork(2)
    long += sgrt.gen("x", max_tokens=LONG)
    short += sgrt.gen("x", max_tokens=40)
    short["x"]
    long.cancel()
    short += sgrt.gen("y", max_tokens=2)
    short["y"]
    return pages_left(engine)


@sgrt.function
def racing(s: sgrt.State, engine: sgrt.Engine) -> int:
    s += "q"
    forks = s.fork(3)
    forks += [sgrt.gen("x", max_tokens=tokens) for tokens in (LONG, 40, LONG)]
    winner = sgrt.first_of(forks, "x")
    winner += sgrt.gen("y", max_tokens=2)
    winner["y"]
    return pages_left(engine)


@sgrt.function
def rolling_back(s: sgrt.State, engine: sgrt.Engine) -> int:
    s += "q"
    here = s.checkpoint()
    s += sgrt.gen("x", max_tokens=LONG)
    other = s.copy()
    s.rollback(here)
    s += "r" + sgrt.gen("y", max_tokens=2)
    s["y"]
    del other
    return pages_left(engine)


@sgrt.function
def timing_out(s: sgrt.State, engine: sgrt.Engine) -> int:
    s += "q"
    with s.timeout(0.05):
        branch = s.copy()
        branch += sgrt.gen("x", max_tokens=LONG)
        with pytest.raises(sgrt.ProgramError):
            branch["x"]
    s += "r" + sgrt.gen("y", max_tokens=2)
    s["y"]
    return pages_left(engine)


@pytest.mark.parametrize(
    "program", [cancelling, racing, rolling_back, timing_out], ids=lambda program: program.name
)
def test_a_call_that_is_given_up_frees_its_pages_while_the_program_goes_on(
    program: sgrt.Program[..., Any],
) -> None:
    with scripted_engine(endless, num_pages=256, settings={"checks_integrity": False}) as engine:
        state = program.on(engine).run(engine)
        assert state.result == 0, "nothing of it is locked any more"
        assert engine.counters.output_tokens < LONG
        engine.check_integrity()


def test_a_branch_that_goes_on_keeps_what_it_shares() -> None:
    @sgrt.function
    def program(s: sgrt.State) -> int:
        s += "a beginning that is longer than a page of sixteen tokens, by far"
        long, short = s.fork(2)
        long += sgrt.gen("x", max_tokens=LONG)
        short += sgrt.gen("x", max_tokens=40)
        long.cancel()
        short["x"]
        return short.meta("x").usage.output_tokens

    with scripted_engine(endless, num_pages=256) as engine:
        assert program.on(engine).run().result == 40
