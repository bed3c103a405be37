"""Programs inside programs."""

from __future__ import annotations

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
        return sum([await child.done() for child in children])

    assert outer.on(ScriptedBackend([1, 2])).run().result == 3
    assert aouter.on(ScriptedBackend([1, 2])).run().result == 3


def test_calling_a_program_outside_a_run_says_to_run_it() -> None:
    @function
    def capital(s: State, country: str) -> None:
        s += country

    with pytest.raises(InvalidRequest, match=r"capital.run\(...\)"):
        capital("France")
