"""What a failing call does to its program, and where it shows."""

from __future__ import annotations

import pytest

from sgrt_frontend.errors import BackendError, ProgramError
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.state import State


def test_a_failing_call_raises_where_it_is_read_with_its_own_line() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x")
        s["x"]

    with pytest.raises(ProgramError, match=r"test_program_errors.py:\d+: generating 'x' failed: .*boom") as caught:
        program.on(ScriptedBackend([BackendError("boom")])).run()
    assert caught.value.variable == "x"
    assert isinstance(caught.value.__cause__, BackendError)


def test_a_failing_call_that_nobody_reads_fails_the_run() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x") + gen("y")

    with pytest.raises(ProgramError, match="generating 'x' failed"):
        program.on(ScriptedBackend([BackendError("boom"), "never"])).run()


def test_a_variable_after_a_failure_says_what_failed() -> None:
    @function
    def program(s: State) -> str:
        s += "q" + gen("x") + gen("y")
        try:
            s["y"]
        except ProgramError as error:
            return str(error)
        return ""

    state = program.on(ScriptedBackend([BackendError("boom")])).run()
    assert "'y' was not generated" in state.result and "boom" in state.result


def test_a_handled_failure_does_not_fail_the_run() -> None:
    @function
    def program(s: State) -> str:
        copy = s.copy()
        copy += "q" + gen("x")
        try:
            return copy.value("x", str)
        except ProgramError:
            return "none"

    assert program.on(ScriptedBackend([BackendError("boom")])).run().result == "none"


def test_an_error_of_the_body_is_raised_as_it_is() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x")
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        program.on(ScriptedBackend([Answer(text="a", delay_s=30)])).run()
