"""What a program gets of an engine that closes, or is late, in the middle of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from scripted_engine import scripted_engine

from sgrt_frontend.errors import Cancelled, DeadlineExceeded, ProgramError
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.state import State


def letters(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    return {65 + len(output) % 2: 9.0}


@function
def constrained(s: State) -> str:
    s += "q" + gen("x", regex="[AB]{3000}")
    return s.value("x", str)


@function
def free(s: State) -> str:
    s += "q" + gen("x", max_tokens=3000)
    return s.value("x", str)


@pytest.mark.parametrize("program", [constrained, free])
def test_an_engine_that_closes_gives_no_half_values(program: object) -> None:
    engine = scripted_engine(letters)
    with (
        pytest.raises(Cancelled, match="'x': the backend broke the call off"),
        program.on(engine).stream() as events,  # type: ignore[attr-defined]  # a program
    ):
        for _ in events:
            engine.close()


def test_a_deadline_gives_no_half_values() -> None:
    @function
    def late(s: State) -> str:
        s += "q" + gen("x", regex="[AB]{3000}", timeout_s=0.05)
        return s.value("x", str)

    with scripted_engine(letters) as engine, pytest.raises(ProgramError) as caught:
        late.on(engine).run()
    assert isinstance(caught.value.__cause__, DeadlineExceeded)
