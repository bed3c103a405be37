"""Streams: events token by token, partial values, errors and early exits."""

from __future__ import annotations

import asyncio
import threading

import pytest
from pydantic import BaseModel

from sgrt_frontend.errors import BackendError, InvalidRequest, ProgramError
from sgrt_frontend.events import Delta, Done, Partial
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.state import State


class Person(BaseModel):
    name: str
    tags: list[str]


@function
def person(s: State) -> Person:
    s += "A person: "
    s += gen("person", Person)
    s += " says " + gen("words")
    return s.value("person", Person)


SCRIPT = [{"name": "Ann Lee", "tags": ["a", "b"]}, "hello there"]


def test_a_stream_gives_text_partial_values_and_values_in_order() -> None:
    with person.on(ScriptedBackend(SCRIPT)).stream() as events:
        seen = list(events)
    text = "".join(event.text for event in seen if isinstance(event, Delta) and event.variable == "person")
    assert text == '{"name":"Ann Lee","tags":["a","b"]}'
    partials = [event.data for event in seen if isinstance(event, Partial)]
    assert partials[0] == {}
    assert partials[-1] == {"name": "Ann Lee", "tags": ["a", "b"]}
    assert any(value == {"name": "Ann Lee"} for value in partials)
    done = {event.variable: event.value for event in seen if isinstance(event, Done)}
    assert done == {"person": Person(name="Ann Lee", tags=["a", "b"]), "words": "hello there"}
    assert events.state.result == done["person"]


def test_partial_values_are_objects_of_the_type_with_the_fields_so_far() -> None:
    with person.on(ScriptedBackend(SCRIPT)).stream() as events:
        values = [event.value for event in events if isinstance(event, Partial)]
    assert all(isinstance(value, Person) for value in values)
    assert not hasattr(values[0], "name")
    assert [value.name for value in values if hasattr(value, "name")][-1] == "Ann Lee"
    assert values[-1] == Person(name="Ann Lee", tags=["a", "b"])


def test_the_text_of_one_variable_can_be_followed() -> None:
    with person.on(ScriptedBackend(SCRIPT)).stream() as events:
        pieces = list(events.text("words"))
    assert len(pieces) > 1 and "".join(pieces) == "hello there"


def test_an_async_stream_gives_the_same_events() -> None:
    async def collect() -> list[object]:
        async with person.on(ScriptedBackend(SCRIPT)).astream() as events:
            return [event async for event in events]

    with person.on(ScriptedBackend(SCRIPT)).stream() as events:
        expected = [repr(event) for event in events if not isinstance(event, Done)]
    assert [repr(event) for event in asyncio.run(collect()) if not isinstance(event, Done)] == expected


def test_the_text_of_a_number_streams_without_what_follows_it() -> None:
    @function
    def program(s: State) -> None:
        s += "n:" + gen("n", int)

    with program.on(ScriptedBackend([" 12,"])).stream() as events:
        assert "".join(events.text("n")) == " 12"
    assert events.state["n"] == 12


def test_several_samples_stream_side_by_side() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x", n=2)

    with program.on(ScriptedBackend(["one", "two"])).stream() as events:
        texts = ["", ""]
        for event in events:
            if isinstance(event, Delta):
                texts[event.sample] += event.text
    assert texts == ["one", "two"]


def test_an_error_in_the_middle_is_raised_where_the_events_end() -> None:
    backend = ScriptedBackend([Answer(text="some words here", error=BackendError("boom"), fails_after=2)])

    @function
    def program(s: State) -> None:
        s += "q" + gen("x")

    seen: list[object] = []
    with pytest.raises(ProgramError, match="boom"), program.on(backend).stream() as events:
        seen.extend(events)
    assert len(seen) == 2


def test_leaving_a_stream_early_cancels_the_run() -> None:
    backend = ScriptedBackend([Answer(text="word " * 1000), Answer(text="slow", delay_s=60)])

    @function
    def program(s: State) -> None:
        s += "q" + gen("x") + gen("y")
        s["y"]

    with program.on(backend).stream() as events:
        for _ in events:
            break

    async def leave() -> None:
        async with program.on(ScriptedBackend([Answer(text="slow", delay_s=60)])).astream():
            await asyncio.sleep(0.01)

    asyncio.run(leave())


def test_a_stream_is_a_context_manager() -> None:
    with pytest.raises(InvalidRequest, match=r"with program\.stream"):
        list(person.on(ScriptedBackend([])).stream())


class Unreachable(ScriptedBackend):
    """Cannot even say what it starts prompts with."""

    def begin_tokens(self) -> tuple[int, ...]:
        raise BackendError("nobody listens there")


def test_a_stream_that_cannot_begin_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    with pytest.raises(BackendError, match="nobody listens"), person.on(Unreachable()).stream():
        raise AssertionError("the stream has begun")
    assert threading.active_count() == before


def test_an_async_stream_that_cannot_begin_leaves_no_thread_behind() -> None:
    async def begin() -> None:
        async with person.on(Unreachable()).astream():
            raise AssertionError("the stream has begun")

    before = threading.active_count()
    with pytest.raises(BackendError, match="nobody listens"):
        asyncio.run(begin())
    assert threading.active_count() == before
