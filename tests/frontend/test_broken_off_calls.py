"""Calls that end before their time: what there is of them is no value."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from sgrt_frontend.call import Call, Chunk, StopReason
from sgrt_frontend.errors import Cancelled, DeadlineExceeded, ProgramError, SgrtError
from sgrt_frontend.gen import Gen, gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.state import State


class Word(BaseModel):
    """A value in JSON."""

    word: str


class BreakingOff(ScriptedBackend):
    """Ends its last output for a reason that the call did not ask for."""

    def __init__(self, reason: StopReason, *replies: object) -> None:
        super().__init__(replies)
        self._reason = reason

    async def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """The scripted chunks, with another end."""
        async for chunk in super().generate(call):
            is_last = chunk.index == call.sampling.n - 1
            if chunk.finish is not None and is_last:
                chunk = replace(chunk, finish=replace(chunk.finish, reason=self._reason))
            yield chunk


GENERATIONS: list[Callable[[], Gen[Any]]] = [
    lambda: gen("x"),
    lambda: gen("x", n=2),
    lambda: gen("x", regex="a+"),
    lambda: gen("x", choice=["aaa", "aaab"]),
    lambda: gen("x", str),
    lambda: gen("x", regex="a+", n=2),
    lambda: gen("x", temperature=1.0).until(lambda text: True),
]


@pytest.mark.parametrize("make", GENERATIONS)
@pytest.mark.parametrize(
    ("reason", "kind"), [(StopReason.CANCELLED, Cancelled), (StopReason.DEADLINE, DeadlineExceeded)]
)
def test_a_call_that_was_broken_off_has_no_value(
    make: Callable[[], Gen[Any]], reason: StopReason, kind: type[SgrtError]
) -> None:
    @function
    def program(s: State) -> object:
        s += "q" + make()
        return s["x"]

    with pytest.raises((ProgramError, Cancelled)) as caught:
        program.on(BreakingOff(reason, "aaa", "aaa")).run()
    assert isinstance(caught.value, kind) or isinstance(caught.value.__cause__, kind)
    assert "after 2 tokens" in str(caught.value)


def test_half_an_object_is_no_value() -> None:
    @function
    def program(s: State) -> object:
        s += "q" + gen("x", Word)
        return s["x"]

    with pytest.raises(Cancelled):
        program.on(BreakingOff(StopReason.CANCELLED, {"word": "a"})).run()


@pytest.mark.parametrize("reason", [StopReason.CANCELLED, StopReason.DEADLINE])
def test_a_call_that_was_broken_off_fails_the_run_when_nobody_reads_it(reason: StopReason) -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x")

    with pytest.raises((Cancelled, ProgramError)):
        program.on(BreakingOff(reason, "aaa")).run()


def test_a_call_that_the_program_cancelled_does_not_fail_the_run(echo: ScriptedBackend) -> None:
    @function
    def program(s: State) -> str:
        copy = s.copy()
        copy += "q" + gen("x")
        copy.cancel()
        return "done"

    assert program.on(echo).run().result == "done"


@function
def impatient(s: State) -> None:
    raise TimeoutError("a socket of mine")


@function
async def impatient_async(s: State) -> None:
    raise TimeoutError("a socket of mine")


@pytest.mark.parametrize("body", [impatient, impatient_async])
@pytest.mark.parametrize("timeout_s", [None, 60.0])
def test_a_timeout_error_of_the_body_is_raised_as_it_is(body: object, timeout_s: float | None) -> None:
    backend = ScriptedBackend()
    with pytest.raises(TimeoutError, match="a socket of mine") as caught:
        body.on(backend).with_options(timeout_s=timeout_s).run()  # type: ignore[attr-defined]  # a program
    assert not isinstance(caught.value, DeadlineExceeded)


def test_a_timeout_error_of_the_backend_is_not_the_calls_deadline() -> None:
    @function
    def program(s: State) -> object:
        s += "q" + gen("x", timeout_s=60.0)
        return s["x"]

    with pytest.raises(ProgramError, match="a socket of its own") as caught:
        program.on(ScriptedBackend([TimeoutError("a socket of its own")])).run()
    assert not isinstance(caught.value.__cause__, DeadlineExceeded)


def test_a_timeout_error_of_the_backend_is_not_the_timeout_of_a_batch() -> None:
    @function
    def program(s: State, text: str) -> None:
        s += text + gen("x")

    states = program.on(ScriptedBackend([TimeoutError("a socket of its own"), "b"])).run_batch(
        [("a",), ("b",)], raise_errors=False
    )
    errors = [str(state.error) for state in states if state.error is not None]
    assert len(errors) == 1 and "a socket of its own" in errors[0]


def test_a_run_cancelled_from_outside_stays_cancelled() -> None:
    @function
    async def program(s: State) -> None:
        await asyncio.sleep(60)

    async def cancelled() -> None:
        task = asyncio.create_task(program.on(ScriptedBackend()).with_options(timeout_s=30).arun())
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
