"""Programs inside programs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.state import State


def test_nested_programs_run_beside_their_caller() -> None:
    @function
    def expand(s: State, topic: str) -> None:
        s += f"Expand {topic}:" + gen("text")

    @function
    def outline(s: State) -> str:
        children = [expand(topic=topic) for topic in ("a", "b", "c")]
        s += "Summary: " + " ".join(child.value("text", str) for child in children)
        s += gen("end")
        return s.text()

    backend = ScriptedBackend(lambda prompt: Answer(text=prompt[-2:-1], delay_s=0.02))
    assert outline.on(backend).run().result == "Summary: a b c "
    assert len(backend.calls) == 4


def test_async_programs_nest_in_both_kinds_of_bodies() -> None:
    @function
    async def inner(s: State, word: str) -> int:
        s += word
        return await s.agen(int)

    @function
    def outer(s: State) -> int:
        return sum(child.result for child in [inner("a"), inner("b")])

    @function
    async def aouter(s: State) -> int:
        children = [inner("a"), inner("b")]
        return sum([await child for child in children])

    assert outer.on(ScriptedBackend([1, 2])).run().result == 3
    assert aouter.on(ScriptedBackend([1, 2])).run().result == 3


def test_an_async_body_awaits_a_nested_program_or_is_told_to() -> None:
    @function
    async def inner(s: State) -> str:
        s += "q" + gen("v")
        return await s.get("v", str)

    @function
    async def awaits(s: State) -> str:
        return await inner()

    @function
    async def waits(s: State) -> str:
        return inner().result

    assert awaits.on(ScriptedBackend(["a"])).run().result == "a"
    with pytest.raises(InvalidRequest, match=r"write `await inner\(\.\.\.\)`"):
        waits.on(ScriptedBackend(["a"])).run()


def _text(s: State) -> object:
    return s.text()


def _tokens(s: State) -> object:
    return s.tokens()


def _messages(s: State) -> object:
    return s.messages()


def _logprobs(s: State) -> object:
    return s.prompt_logprobs()


def _score(s: State) -> object:
    return s.score(["a"])


def _variable(s: State) -> object:
    return s["v"]


@pytest.mark.parametrize("read", [_text, _tokens, _messages, _logprobs, _score, _variable])
def test_what_an_async_body_is_told_to_write_works(read: Callable[[State], object]) -> None:
    told: list[str] = []

    @function
    async def body(s: State) -> object:
        s += "q" + gen("v", max_tokens=1)
        try:
            return read(s)
        except InvalidRequest as error:
            told.extend(re.findall("`await (.*?)`", str(error)))
        s += "end"
        names = {"s": s, "asyncio": asyncio}
        return await eval(told[0].replace("...", "['a']"), names)

    body.on(ScriptedBackend(["a"])).run()
    assert len(told) == 1


def test_calling_a_program_outside_a_run_says_to_run_it() -> None:
    @function
    def capital(s: State, country: str) -> None:
        s += country

    with pytest.raises(InvalidRequest, match=r"capital.run\(...\)"):
        capital("France")
