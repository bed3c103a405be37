"""Library parts: tools, the reasoning-and-acting program, reasoning parts, races."""

from __future__ import annotations

import asyncio
import gc
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from sgrt_frontend.call import StopReason
from sgrt_frontend.errors import Cancelled, InvalidRequest, ProgramError
from sgrt_frontend.events import Done
from sgrt_frontend.expression import assistant, user
from sgrt_frontend.gen import gen, retry_until
from sgrt_frontend.program import function
from sgrt_frontend.race import afirst_of, first_of
from sgrt_frontend.react import OutOfSteps, react
from sgrt_frontend.reasoning import reasoning
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.state import State
from sgrt_frontend.tools import Tool, Toolbox, ToolFunction


class Place(BaseModel):
    city: str
    country: str = "France"


def weather(place: Place, days: Annotated[int, Field(ge=1, le=7)] = 1) -> dict[str, object]:
    """The weather
    in a place."""
    if place.city == "Atlantis":
        raise LookupError("no such city")
    return {"city": place.city, "days": days, "sun": True}


async def lookup(word: str) -> str:
    """Look a word up."""
    await asyncio.sleep(0)
    return word.upper()


def test_a_tool_has_the_schema_of_its_signature() -> None:
    tool = Tool(weather)
    assert tool.name == "weather" and tool.description == "The weather\nin a place."
    assert tool.schema["required"] == ["place"]
    assert tool.schema["additionalProperties"] is False


def test_calls_have_arguments_of_the_types_of_the_signature() -> None:
    box = Toolbox([weather, lookup])

    @function
    async def program(s: State) -> list[str]:
        s += "go" + box.gen("one") + "." + box.gen("two") + "." + box.gen("three")
        calls = [await s.get(name) for name in ("one", "two", "three")]
        assert isinstance(calls[0].arguments.place, Place) and calls[0].arguments.days == 2
        return [await box.run(call) for call in calls]

    backend = ScriptedBackend(
        [
            {"name": "weather", "arguments": {"place": {"city": "Nice"}, "days": 2}},
            {"name": "lookup", "arguments": {"word": "a"}},
            {"name": "weather", "arguments": {"place": {"city": "Atlantis"}}},
        ]
    )
    assert program.on(backend).run().result == [
        '{"city": "Nice", "days": 2, "sun": true}',
        "A",
        "Error: LookupError: no such city",
    ]


def test_calls_of_unknown_tools_cannot_be_generated() -> None:
    box = Toolbox([lookup])

    @function
    def program(s: State) -> None:
        s += "go" + box.gen("call")

    with pytest.raises(ProgramError, match="violates the call's constraint"):
        program.on(ScriptedBackend([{"name": "other", "arguments": {}}])).run()


def untyped(x) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001 - the mistake under test


def variadic(*values: int) -> None: ...


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ([untyped], "needs a type"),
        ([variadic], "no name"),
        ([], "at least one"),
        ([lookup, lookup], "two tools"),
    ],
)
def test_functions_that_cannot_be_tools_are_refused(functions: list[ToolFunction], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Toolbox(functions)


def test_an_agent_that_never_finishes_runs_out_of_steps() -> None:
    def script(prompt: str) -> object:
        return (
            {"name": "lookup", "arguments": {"word": "x"}}
            if prompt.endswith("\n") and "Thought: hm" in prompt[-14:]
            else "hm\n"
        )

    with pytest.raises(OutOfSteps, match="no answer after 2 steps"):
        react.on(ScriptedBackend(script)).run("q", tools=[lookup], max_steps=2)


def test_each_step_of_an_agent_reuses_all_tokens_of_the_last() -> None:
    backend = ScriptedBackend(
        [
            "look it up",
            {"name": "lookup", "arguments": {"word": "x"}},
            "done",
            {"name": "finish", "arguments": {"answer": "X"}},
        ]
    )
    state = react.on(backend).run("q", tools=[lookup])
    assert state.result.answer == "X"
    assert [step.tool for step in state.result.steps] == ["lookup", "finish"]
    for before, after in zip(backend.calls, backend.calls[1:], strict=False):
        assert after.prompt[: len(before.prompt)] == before.prompt


# Reasoning


@function
def think(s: State) -> int:
    s += user("How many?")
    s += assistant(reasoning("why", max_tokens=20) + gen("answer", int))
    return s.value("answer", int)


def test_reasoning_is_a_variable_between_special_marks() -> None:
    backend = ScriptedBackend(["two and two", 4])
    state = think.on(backend).run()
    special = backend.tokenizer.special
    assert state.result == 4 and state["why"] == "two and two"
    assert backend.calls[0].prompt[-2:] == (special["<think>"], *backend.encode("\n"))
    assert backend.calls[0].sampling.stop_token_ids == (special["</think>"],)
    assert special["</think>"] in backend.calls[1].prompt


def test_reasoning_streams_like_any_variable() -> None:
    with think.on(ScriptedBackend(["two and two", 4])).stream() as events:
        done = [event.variable for event in events if isinstance(event, Done)]
    assert done == ["why", "answer"]


def test_reasoning_that_runs_too_long_is_closed() -> None:
    state = think.on(ScriptedBackend(["word " * 50, 4])).run()
    assert state.meta("why").stop_reason is StopReason.LENGTH
    assert state.result == 4


# Races


def slow_unless(fast: str) -> ScriptedBackend:
    return ScriptedBackend(lambda prompt: Answer(text=prompt[-1], delay_s=0 if prompt.endswith(fast) else 60))


def test_the_first_branch_with_a_value_wins_and_the_others_are_cancelled() -> None:
    @function
    def program(s: State) -> str:
        s += "q"
        forks = s.fork(3)
        forks += ["a", "b", "c"]
        forks += gen("x")
        winner = first_of(forks, "x")
        with pytest.raises(Cancelled):
            forks[0]["x"]
        return winner.value("x", str)

    assert program.on(slow_unless("b")).run().result == "b"


def test_a_race_may_ask_for_more_than_being_first() -> None:
    number = gen("n", int)

    @function
    async def program(s: State) -> int:
        s += "q"
        forks = s.fork(3)
        forks += ["1", "2", "3"]
        forks += number
        winner = await afirst_of(forks, number, accept=lambda n: n > 1)
        return await winner.get(number)

    backend = ScriptedBackend(lambda prompt: int(prompt[-1]))
    assert program.on(backend).run().result == 2


def test_a_race_that_everyone_loses_fails() -> None:
    @function
    def program(s: State, accept: bool) -> None:
        s += "q"
        forks = s.fork(2)
        forks += gen("x")
        first_of(forks, "x", accept=lambda _: accept)

    with pytest.raises(ProgramError, match="boom"):
        program.on(ScriptedBackend([ValueError("boom"), ValueError("boom")])).run(True)
    with pytest.raises(ProgramError, match="none of the 2 values was accepted"):
        program.on(ScriptedBackend(["a", "b"])).run(False)


def refuses_loudly(value: object) -> bool:
    raise LookupError(f"what is {value!r}?")


def test_a_race_fails_when_its_judge_does() -> None:
    @function
    def program(s: State) -> None:
        s += "q"
        forks = s.fork(2)
        forks += gen("x")
        first_of(forks, "x", accept=refuses_loudly)

    @function
    async def aprogram(s: State) -> None:
        s += "q"
        forks = s.fork(2)
        forks += gen("x")
        await afirst_of(forks, "x", accept=refuses_loudly)

    for body in (program, aprogram):
        with pytest.raises(ProgramError, match="what is 'a'") as caught:
            body.on(ScriptedBackend(["a", "b"])).with_options(timeout_s=5).run()
        assert isinstance(caught.value.__cause__, LookupError)


def test_retry_until_is_until_as_a_function() -> None:
    @function
    def program(s: State) -> int:
        number = retry_until(gen("n", int, temperature=1.0), lambda n: n == 2)
        s += "q" + number
        return s[number]

    assert program.on(ScriptedBackend([1, 2])).run().result == 2


def test_losers_of_a_race_leave_no_warnings(caplog: pytest.LogCaptureFixture) -> None:
    @function
    def race(s: State) -> str:
        forks = s.fork(3)
        for number, fork in enumerate(forks):
            fork += f"n{number}" + gen("x", max_tokens=5)
        return str(first_of(forks, "x", accept=lambda value: value != "bad")["x"])

    replies: dict[str, Answer | str] = {
        "n0": "bad",
        "n1": Answer(text="late", delay_s=2),
        "n2": Answer(text="win", delay_s=0.05),
    }
    assert race.on(ScriptedBackend(lambda prompt: replies[prompt])).run().result == "win"
    gc.collect()
    assert not [record for record in caplog.records if record.name == "asyncio"]


@pytest.mark.parametrize("racers", [5, "ab", [object()], [None], []])
def test_a_race_of_what_is_no_state_is_refused(racers: object) -> None:
    @function
    def program(s: State) -> None:
        s += "x"
        first_of(racers, "x")  # type: ignore[arg-type]  # what the type checker would have said

    with pytest.raises(InvalidRequest, match="a race"):
        program.on(ScriptedBackend([])).run()
