"""What a failing call does to its program, and where it shows."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

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

    with pytest.raises(
        ProgramError, match=r"test_program_errors.py:\d+: generating 'x' failed: .*boom"
    ) as caught:
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


@function
def failing(s: State) -> object:
    s += "q" + gen("x")
    return s["x"]


@function
async def failing_async(s: State) -> object:
    s += "q" + gen("x")
    return await s.get("x")


@function
def caller(s: State) -> object:
    return failing().result


@function
def dividing(s: State) -> float:
    return 1 / len(s.text())


def streamed(backend: ScriptedBackend) -> None:
    with failing.on(backend).stream() as events:
        list(events)


@pytest.mark.parametrize(
    ("run", "lines"),
    [
        (lambda backend: failing.on(backend).run(), ["failing"]),
        (lambda backend: failing.on(backend).with_options(timeout_s=30).run(), ["failing"]),
        (lambda backend: failing_async.on(backend).run(), ["failing_async"]),
        (lambda backend: asyncio.run(failing.on(backend).arun()), ["failing"]),
        (lambda backend: caller.on(backend).run(), ["caller", "failing"]),
        (lambda backend: dividing.on(backend).run(), ["dividing"]),
        (streamed, ["failing"]),
    ],
)
def test_a_traceback_has_the_lines_of_the_program_and_none_of_the_runtime(
    run: Callable[[ScriptedBackend], object], lines: list[str]
) -> None:
    with pytest.raises((ProgramError, ZeroDivisionError)) as caught:
        run(ScriptedBackend([BackendError("boom")]))
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert not [frame for frame in frames if "sgrt_frontend" in frame.filename]
    assert [frame.name for frame in frames[-len(lines) :]] == lines
    if isinstance(caught.value, ProgramError):
        assert isinstance(caught.value.__cause__, BackendError)


def test_what_the_runtime_did_not_raise_on_purpose_keeps_its_own_lines() -> None:
    @function
    def program(s: State) -> object:
        return s["nothing"]

    with pytest.raises(KeyError) as caught:
        program.on(ScriptedBackend([])).run()
    assert [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)][-3:] == [
        "program",
        "__getitem__",
        "_slot",
    ]
