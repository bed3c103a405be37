"""Text that a body makes of generated text stays known as such."""

from __future__ import annotations

from five_words import five_words

from sgrt_frontend.gen import gen
from sgrt_frontend.planning.units import Bounds
from sgrt_frontend.program import function
from sgrt_frontend.state import State


def test_a_look_at_text_made_of_generated_text_is_noticed() -> None:
    @function
    def f_string(s: State) -> bool:
        s += "q" + gen("x", max_tokens=5)
        return f"{s['x']}!" == "yes!"

    @function
    def within(s: State) -> bool:
        s += "q" + gen("x", max_tokens=5)
        return "yes" in f"it is {s['x']}"

    @function
    def summed(s: State) -> bool:
        s += "q" + gen("x", max_tokens=5)
        return "a " + s.value("x", str) == "a b"

    @function
    def joined(s: State) -> bool:
        s += "q" + gen("x", max_tokens=5)
        return ", ".join([s["x"], "c"]) == "b, c"

    @function
    def helped(s: State) -> bool:
        s += "q" + gen("x", max_tokens=5)
        return shown(s["x"]) == "<yes>"

    @function
    def hashed(s: State) -> bool:
        s += "q" + gen("x", max_tokens=5)
        return s["x"] in {"yes", "no"}

    @function
    def spelled_out(s: State) -> bool:
        s += "q" + gen("x", max_tokens=5)
        return f"{s['x']!r}" == "'yes'"

    for program in (f_string, within, summed, joined, helped, hashed, spelled_out):
        planned = program.on(five_words()).plan()
        assert planned.dynamic_from is not None, program.name
        assert planned.dynamic_from.file == __file__ and planned.calls == Bounds(1, 1)


def test_text_made_of_generated_text_can_be_passed_on() -> None:
    @function
    def program(s: State) -> str:
        s += "q" + gen("x", max_tokens=5)
        s += f"<{s['x']}>" + shown(s["x"]) + ", ".join([s["x"]]) + gen("y", max_tokens=5)
        return f"{s['y']}"

    assert program.on(five_words()).plan().is_static


def shown(value: str) -> str:
    return f"<{value}>"
