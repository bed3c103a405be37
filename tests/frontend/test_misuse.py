"""What is easily written and means nothing is refused with the line that would: never a wrong text, never a hang."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest

from sgrt_frontend.batch import BatchError
from sgrt_frontend.errors import InvalidRequest, ProgramError
from sgrt_frontend.gen import gen
from sgrt_frontend.program import Program, function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.state import State


def backend() -> ScriptedBackend:
    return ScriptedBackend(lambda prompt: "word")


@function
def percent(s: State) -> None:
    s += "Say %s." % gen("x")  # noqa: UP031 - what is tested


@function
def spelled(s: State) -> None:
    s += "Say " + str(gen("x"))


@function
def compared(s: State) -> bool:
    handle = gen("x")
    s += "Say " + handle
    return handle == "word"


@function
def iterated(s: State) -> object:
    return list(s)  # type: ignore[call-overload]  # what is tested


@function
def copied(s: State) -> object:
    return copy.copy(s)


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (percent, "join expressions with"),
        (spelled, "join expressions with"),
        (compared, r"compare s\['x'\]"),
        (iterated, "not iterable"),
        (copied, r"s\.copy\(\) goes on from it"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_it_is_a_type_error_that_says_what_to_write(program: Program[..., Any], advice: str) -> None:
    with pytest.raises(TypeError, match=advice):
        program.on(backend()).run()


def test_a_fork_counts_in_whole_numbers() -> None:
    @function
    def halves(s: State) -> None:
        s.fork(2.5)  # type: ignore[arg-type]  # what is tested

    with pytest.raises(InvalidRequest, match=r"count: must be a whole number of at least 1, not 2\.5"):
        halves.on(backend()).run()


@pytest.mark.parametrize(
    "settings",
    [{"timeout_s": "3"}, {"timeout_s": -1}, {"priority": "high"}, {"cache_salt": 3}, {"planned": 1}],
)
def test_settings_of_a_wrong_kind_are_named(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        percent.with_options(**settings)
    assert caught.value.param == next(iter(settings))


def test_stops_are_texts() -> None:
    with pytest.raises(InvalidRequest, match="stop: must be a text or several, not 3"):
        gen("x", stop=3)  # type: ignore[call-overload]  # what is tested


def test_a_coroutine_that_nobody_awaits_is_no_result() -> None:
    @function
    async def unawaited(s: State) -> object:
        s += "Say " + gen("x")
        return s.get("x")

    @function
    def ordinary(s: State) -> object:
        s += "Say " + gen("x")
        return s.get("x")

    for program in (unawaited, ordinary):
        with pytest.raises(InvalidRequest, match="returned a coroutine, which nobody awaits"):
            program.on(backend()).run()


def test_events_can_be_iterated_again_and_are_over() -> None:
    with percent_free.on(backend()).stream() as events:
        assert list(events) and not list(events)

    async def twice() -> tuple[int, int]:
        async with percent_free.on(backend()).astream() as found:
            return len([event async for event in found]), len([event async for event in found])

    first, second = asyncio.run(twice())
    assert first and not second


@function
def percent_free(s: State) -> None:
    s += "Say " + gen("x")


def test_programs_pickle_by_name_and_states_do_not() -> None:
    assert pickle.loads(pickle.dumps(percent_free)) is percent_free
    with pytest.raises(TypeError, match="by its name alone"):
        pickle.dumps(percent_free.on(backend()))
    with pytest.raises(TypeError, match="belongs to its run"):
        pickle.dumps(percent_free.on(backend()).run())


@function
def leaving(s: State) -> None:
    s += "Say " + gen("x")
    sys.exit(3)


@function
async def leaving_async(s: State) -> None:
    s += "Say " + gen("x")
    sys.exit(3)


@function
def calling(s: State) -> None:
    s += "Say "
    assert leaving_async().result is None


@function
def judging(s: State) -> None:
    s += "Say " + gen("x", temperature=1.0).until(lambda value: sys.exit(3))


def streamed(program: Program[..., Any]) -> None:
    with program.stream() as events:
        list(events)


@pytest.mark.parametrize("program", [leaving, leaving_async], ids=lambda program: program.name)
@pytest.mark.parametrize(
    "run",
    [
        lambda program: program.run(),
        lambda program: program.with_options(timeout_s=30).run(),
        lambda program: asyncio.run(program.arun()),
        streamed,
    ],
    ids=["run", "timeout", "arun", "stream"],
)
def test_an_exit_leaves_the_run_as_it_is(
    program: Program[..., Any], run: Callable[[Program[..., Any]], object]
) -> None:
    with pytest.raises(SystemExit) as caught:
        run(program.on(backend()))
    assert caught.value.code == 3


def test_an_exit_in_a_batch_stays_with_its_item() -> None:
    for program in (leaving, leaving_async):
        with pytest.raises(BatchError, match="item 0: SystemExit: 3") as caught:
            program.on(backend()).run_batch([{}, {}])
        assert all(isinstance(state.error, SystemExit) for state in caught.value.states)


@pytest.mark.parametrize("program", [calling, judging], ids=lambda program: program.name)
def test_an_exit_beside_the_body_is_a_failure_of_what_it_was_for(program: Program[..., Any]) -> None:
    with pytest.raises(ProgramError, match="SystemExit: 3"):
        program.on(backend()).run()
