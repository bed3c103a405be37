"""Batches: order, concurrency, errors that stay with their item, progress."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sgrt_frontend.batch import BatchError, total_usage
from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.state import State


@function
def echo(s: State, word: str) -> str:
    s += f"Say {word}:"
    s += gen("x")
    return s.value("x", str)


def answer(prompt: str) -> str:
    if "bad" in prompt:
        raise ValueError("no")
    return prompt


def test_results_come_in_the_order_of_the_items() -> None:
    states = echo.on(ScriptedBackend(answer)).run_batch([{"word": "a"}, ("b",), {"word": "c"}])
    assert [state.result for state in states] == ["Say a:", "Say b:", "Say c:"]
    assert [state.result for state in echo.on(ScriptedBackend(answer)).map(["a", "b"])] == [
        "Say a:",
        "Say b:",
    ]


def test_one_failing_item_loses_nothing_of_the_others() -> None:
    program = echo.on(ScriptedBackend(answer))
    with pytest.raises(BatchError, match=r"1 of 3 items of echo failed:\n  item 1: ") as caught:
        program.map(["a", "bad", "c"])
    assert [state.error is None for state in caught.value.states] == [True, False, True]
    states = program.run_batch([("a",), ("bad",)], raise_errors=False)
    assert states[0].result == "Say a:"
    assert states[0].error is None and "no" in str(states[1].error)


def test_an_error_of_the_body_fails_its_item_alone() -> None:
    @function
    def program(s: State, number: int) -> float:
        s += "x"
        return 1 / number

    states = program.on(ScriptedBackend([])).run_batch([(1,), (0,), (2,)], raise_errors=False)
    assert [type(state.error) for state in states] == [type(None), ZeroDivisionError, type(None)]


def test_no_more_items_run_than_allowed() -> None:
    running = most = 0

    @function
    async def program(s: State, number: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        s += "x"
        await s.agen()
        running -= 1

    backend = ScriptedBackend(lambda prompt: Answer(text="a", delay_s=0.002))
    program.on(backend).run_batch([(number,) for number in range(20)], concurrency=3)
    assert most == 3


def test_lazy_bodies_need_few_threads() -> None:
    most = 0

    @function
    def program(s: State, number: int) -> None:
        nonlocal most
        most = max(most, threading.active_count())
        s += "x" + gen("a") + "y" + gen("b")

    program.on(ScriptedBackend(lambda prompt: "a")).run_batch([(number,) for number in range(200)])
    assert most <= 3 + 32


def test_batches_run_on_a_loop_too() -> None:
    states = asyncio.run(echo.on(ScriptedBackend(answer)).arun_batch([("a",), ("b",)]))
    assert [state.result for state in states] == ["Say a:", "Say b:"]


def test_usage_adds_up() -> None:
    states = echo.on(ScriptedBackend(answer)).map(["a", "b"])
    usage = total_usage(states)
    assert usage.prompt_tokens == sum(state.usage.prompt_tokens for state in states)
    assert 0 < usage.cached_tokens < usage.prompt_tokens


def test_progress_is_shown_on_request_and_not_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    program = echo.on(ScriptedBackend(answer))
    program.map(["a", "b"])
    assert capsys.readouterr().err == ""
    program.map(["a", "b"], progress=True)
    shown = capsys.readouterr().err
    assert "echo" in shown and "2/2" in shown


def test_wrong_items_and_limits_are_refused() -> None:
    program = echo.on(ScriptedBackend(answer))
    with pytest.raises(InvalidRequest, match="for single values use map"):
        program.run_batch(["a"])  # type: ignore[list-item]  # the mistake under test
    with pytest.raises(InvalidRequest, match="concurrency"):
        program.map(["a"], concurrency=0)
    with pytest.raises(TypeError):
        program.run_batch([{"wrd": "a"}])


def test_an_empty_batch_is_empty() -> None:
    assert echo.on(ScriptedBackend([])).run_batch([]) == []


def test_seeds_differ_between_items_and_repeat_between_batches() -> None:
    def seeds() -> list[int | None]:
        backend = ScriptedBackend(answer)
        echo.on(backend).with_options(seed=1).map(["a", "b"], concurrency=1)
        return [call.sampling.seed for call in backend.calls]

    assert seeds() == seeds()
    assert len(set(seeds())) == 2
