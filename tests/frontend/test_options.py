"""How a program runs: options, bound arguments, seeds."""

from __future__ import annotations

import pytest

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.state import State


@function
def capital(s: State, country: str) -> str:
    s += f"The capital of {country} is"
    s += gen("city")
    return s.value("city", str)


def test_bound_arguments_are_used_and_conflicts_are_errors(echo: ScriptedBackend) -> None:
    french = capital.on(echo).bind(country="France")
    assert french.run().text().startswith("The capital of France")
    with pytest.raises(InvalidRequest, match="country"):
        french.run(country="Italy")
    with pytest.raises(InvalidRequest, match="country"):
        french.run("Italy")
    with pytest.raises(InvalidRequest, match="country"):
        french.bind(country="Italy")
    with pytest.raises(InvalidRequest, match="continent"):
        capital.bind(continent="Europe")


def test_binding_never_changes_the_arguments_of_the_caller(echo: ScriptedBackend) -> None:
    @function
    def program(s: State, a: str, b: str) -> str:
        s += a + b + gen("x")
        return s.text()

    items = [{"b": "1"}, {"b": "2"}]
    states = program.on(echo).bind(a="x").run_batch(items)
    assert [state.text() for state in states] == ["x1word", "x2word"]
    assert items == [{"b": "1"}, {"b": "2"}]


def test_options_reach_every_call_and_the_calls_own_win() -> None:
    @function
    def program(s: State) -> None:
        s += "a" + gen("x") + gen("y", temperature=0.1, max_tokens=7)

    backend = ScriptedBackend(["1", "2"])
    program.on(backend).with_options(temperature=0.9, max_tokens=3, priority=4, cache_salt="t").run()
    first, second = backend.calls
    assert (first.sampling.temperature, first.sampling.max_tokens, first.priority) == (0.9, 3, 4)
    assert (second.sampling.temperature, second.sampling.max_tokens) == (0.1, 7)
    assert second.cache_salt == "t"


def test_a_default_stop_applies_to_free_text_alone() -> None:
    @function
    def program(s: State) -> None:
        s += "a" + gen("x") + gen("y", int)

    backend = ScriptedBackend(["1", 2])
    program.on(backend).with_options(stop="\n").run()
    assert [call.sampling.stop for call in backend.calls] == [("\n",), ()]


def test_unknown_options_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="temprature"):
        capital.with_options(temprature=0.5)  # type: ignore[call-arg]  # the mistake under test
    with pytest.raises(InvalidRequest, match="temperature"):
        capital.with_options(temperature=-1.0)


def test_seeds_depend_on_the_run_and_the_place_alone() -> None:
    @function
    def program(s: State) -> None:
        s += "a" + gen("x") + gen("y")

    def seeds(seed: int | None) -> list[int | None]:
        backend = ScriptedBackend(["1", "2"])
        program.on(backend).with_options(seed=seed).run()
        return [call.sampling.seed for call in backend.calls]

    assert seeds(7) == seeds(7)
    assert len(set(seeds(7) + seeds(8))) == 4
    assert seeds(None) != seeds(None)
