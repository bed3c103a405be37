"""Mistakes that languages of this kind are known for, each made impossible or loud."""

from __future__ import annotations

import math

import pytest
from pydantic import BaseModel

from sgrt_frontend.call import Call
from sgrt_frontend.errors import ConstraintError, ProgramError
from sgrt_frontend.expression import Expression, assistant, user
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.select import Normalization, select
from sgrt_frontend.state import State
from sgrt_grammars.constraint import JsonSchema


def test_typed_values_are_values_not_text() -> None:
    @function
    def program(s: State) -> float:
        s += "a " + gen("i", int) + " b " + gen("f", float) + " c " + gen("b", bool)
        return s.value("i", int) + s.value("f", float) + s.value("b", bool)

    assert program.on(ScriptedBackend([1, 2.5, True])).run().result == 4.5


def test_strings_may_hold_quotes_punctuation_and_escapes() -> None:
    text = 'She said "no, never!"\n\ttwice…'

    class Line(BaseModel):
        words: str

    @function
    def program(s: State) -> tuple[str, str]:
        s += "a" + gen("free") + gen("line", Line)
        return s.value("free", str), s.value("line", Line).words

    assert program.on(ScriptedBackend([text, {"words": text}])).run().result == (text, text)


def test_certain_choices_do_not_divide_by_zero() -> None:
    """A choice whose every token has log-probability exactly 0, and one that is impossible."""

    def certain(prefix: tuple[int, ...]) -> list[float]:
        yes = backend.encode("yes")
        follow = {prompt: yes[0], prompt + yes: backend.tokenizer.end_token_id}
        for count in range(1, len(yes)):
            follow[prompt + yes[:count]] = yes[count]
        right = follow.get(prefix, backend.tokenizer.end_token_id)
        return [0.0 if token == right else -math.inf for token in range(len(backend.tokenizer))]

    backend = ScriptedBackend([], next_logprobs=certain)
    prompt = backend.encode("q")
    for normalization in Normalization:

        @function
        def program(s: State, normalization: Normalization = normalization) -> str:
            s += "q" + select("c", ["no", "yes"], normalization=normalization, open_ended=True)
            return s.value("c", str)

        state = program.on(backend).run()
        assert state.result == "yes"
        assert state.meta("c").probabilities == {"no": 0.0, "yes": 1.0}


def test_impossible_choices_share_equally() -> None:
    backend = ScriptedBackend([], next_logprobs=lambda prefix: [-math.inf] * 2000)

    @function
    def program(s: State) -> None:
        s += "q" + select("c", ["no", "yes"])

    assert program.on(backend).run().meta("c").probabilities == {"no": 0.5, "yes": 0.5}


def test_a_select_follows_its_own_temperature_and_not_the_runs() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + select("c", ["no", "yes"])

    backend = ScriptedBackend([], likes=["yes"])
    states = [program.on(backend).with_options(temperature=2.0, seed=seed).run() for seed in range(5)]
    assert [state["c"] for state in states] == ["yes"] * 5


def test_messages_and_text_agree_about_blanks() -> None:
    @function
    def program(s: State) -> None:
        s += user("  indented") + assistant(gen("x"))

    state = program.on(ScriptedBackend([" answer "])).run()
    assert [message.content for message in state.messages()] == ["  indented", " answer "]
    assert state.text() == "  indented\n answer "


class NoSchemas(ScriptedBackend):
    """A backend that cannot honour JSON schemas, and says so."""

    def generate(self, call: Call):  # type: ignore[no-untyped-def]  # noqa: ANN201 - as its base
        if isinstance(call.constraint, JsonSchema):
            raise ConstraintError("schema: this backend enforces no JSON schemas", param="schema")
        return super().generate(call)


def test_a_constraint_that_the_backend_cannot_honour_is_an_error_not_a_free_generation() -> None:
    @function
    def program(s: State) -> None:
        s += "q"
        before = s.text()
        s += gen("x", list[int])
        with pytest.raises(ProgramError, match="enforces no JSON schemas"):
            s["x"]
        assert s.copy is not None and before == "q"

    with pytest.raises(ProgramError) as caught:

        @function
        def unread(s: State) -> None:
            s += "q" + gen("x", list[int])

        unread.on(NoSchemas([])).run()
    assert isinstance(caught.value.__cause__, ConstraintError)
    program.on(NoSchemas([])).run()


def test_a_prompt_too_long_for_the_context_says_both_lengths() -> None:
    @function
    def program(s: State) -> None:
        s += "word " * 50 + gen("x")

    with pytest.raises(ProgramError, match=r"the prompt has \d+ tokens, the context 20"):
        program.on(ScriptedBackend(["a"], context_tokens=20)).run()


def test_the_default_length_cuts_nothing() -> None:
    @function
    def program(s: State) -> str:
        s += "q" + gen("x")
        return s.value("x", str)

    long = "word " * 500
    assert program.on(ScriptedBackend([long])).run().result == long


def test_sampling_defaults_are_greedy_and_visible_in_the_call() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x")

    backend = ScriptedBackend(["a"])
    program.on(backend).run()
    assert backend.calls[0].sampling.temperature == 0.0
    assert backend.calls[0].sampling.max_tokens is None


def test_two_runs_on_one_backend_share_nothing_but_the_cache() -> None:
    @function
    def program(s: State, word: str) -> None:
        s += word + gen("x")

    backend = ScriptedBackend(lambda prompt: prompt)
    first, second = program.on(backend).run("a"), program.on(backend).run("b")
    assert (first["x"], second["x"]) == ("a", "b")


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_a_turn_without_its_text_is_an_error_not_a_missing_turn(role: str) -> None:
    @function
    def program(s: State, text: str | None) -> None:
        getattr(s, role)(text)

    with pytest.raises(TypeError, match="takes text and expressions, not NoneType"):
        program.on(ScriptedBackend([])).run(None)


@pytest.mark.parametrize("expression", [gen("a"), select("a", ["x", "y"]), user("a"), "b" + gen("a")])
def test_a_call_inside_an_f_string_is_an_error_not_its_description(expression: Expression) -> None:
    @function
    def program(s: State) -> None:
        s += f"before {expression} after"

    with pytest.raises(TypeError, match=r"join expressions with `\+`"):
        program.on(ScriptedBackend([])).run()
