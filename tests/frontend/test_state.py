"""States: tokens, variables, checkpoints, scopes, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_runs import run

from sgrt_frontend.call import StopReason, Usage
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.errors import InvalidRequest, ProgramError
from sgrt_frontend.expression import assistant, system, user
from sgrt_frontend.gen import gen
from sgrt_frontend.generate import kept_tokens
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.slot import Sample
from sgrt_frontend.state import State


@pytest.mark.parametrize(
    "constants",
    [
        ("Name: ", "\nAge: ", "\n"),
        ('{"k": "', '", "v": "', '"}'),
        ("1. ", "\n2. ", "\n3. "),
        ("Question: why\nAnswer:", " so", " then"),
    ],
)
def test_every_generated_token_is_reused_by_the_next_call(constants: Sequence[str]) -> None:
    """Whatever text surrounds it, what was generated is never tokenized again."""

    def body(s: State) -> None:
        for index, constant in enumerate(constants):
            s += constant
            s += gen(f"x{index}")

    backend = ScriptedBackend(["Ann Smith ", "forty two", "the end"])
    state = run(body, backend)
    for index, (before, after) in enumerate(zip(backend.calls, backend.calls[1:], strict=False)):
        sample = state.meta(f"x{index}").samples[0]
        expected = before.prompt + sample.token_ids
        assert after.prompt[: len(expected)] == expected
        usage = state.meta(f"x{index + 1}").usage
        assert usage.cached_tokens >= len(expected) - 1  # all but the last sampled token


def test_pending_constants_are_encoded_as_one_text() -> None:
    def body(s: State) -> None:
        s += "the an"
        s += "swer"
        s += gen("x")

    backend = ScriptedBackend(["a"])
    run(body, backend)
    assert backend.calls[0].prompt == backend.encode("the answer")


def test_a_begin_token_stands_first_once() -> None:
    def body(s: State) -> None:
        s += gen("x")
        s += "more"
        s += gen("y")

    backend = ScriptedBackend(["a", "b"], begin_tokens=(0,))
    run(body, backend)
    assert backend.calls[0].prompt == (0,)
    assert backend.calls[1].prompt == (0, *backend.encode("a"), *backend.encode("more"))


def test_an_empty_prompt_without_a_begin_token_is_refused() -> None:
    def body(s: State) -> None:
        s += gen("x")

    with pytest.raises(ProgramError, match="empty"):
        run(body, ScriptedBackend(["a"]))


def test_text_after_a_stop_string_is_not_in_the_state() -> None:
    def body(s: State) -> None:
        s += "List:"
        s += gen("x", stop=";")
        s += "!" + gen("y")

    backend = ScriptedBackend([Answer(text=" a;b"), "c"])
    state = run(body, backend)
    assert state["x"] == " a"
    assert state.meta("x").stop_reason is StopReason.STOP_STRING
    assert state.text() == "List: a!c"
    assert backend.calls[1].prompt == backend.encode("List:") + backend.encode(" a") + backend.encode("!")


def test_a_stop_string_inside_a_token_keeps_the_rest_of_the_token() -> None:
    """Engines give the tokens that spelled the stop string too; the state cuts them to the visible text."""
    backend = ScriptedBackend([])
    encoder = Encoder(backend)
    generated = backend.encode('the name",')
    usage = Usage(prompt_tokens=1, cached_tokens=0, output_tokens=len(generated))
    for stop, text in (('",', "the name"), (",", 'the name"'), ("me", "the na")):
        sample = Sample(
            text=text, token_ids=generated, stop_reason=StopReason.STOP_STRING, stop=stop, usage=usage
        )
        kept = kept_tokens(sample, encoder)
        assert backend.decode(kept) == text
        assert kept[:1] == generated[:1]


def test_an_end_token_is_not_part_of_the_state() -> None:
    backend = ScriptedBackend([])
    end = backend.tokenizer.end_token_id
    usage = Usage(prompt_tokens=1, cached_tokens=0, output_tokens=3)
    sample = Sample(
        text="ab",
        token_ids=(*backend.encode("ab"), end),
        stop_reason=StopReason.END_OF_TEXT,
        stop=None,
        usage=usage,
    )
    assert kept_tokens(sample, Encoder(backend)) == backend.encode("ab")


def test_numbers_end_where_the_model_goes_on() -> None:
    def body(s: State) -> int:
        s += "Age: "
        age: int = s.gen(int)
        s += " years" + gen("rest")
        return age + 1

    backend = ScriptedBackend(["42 ", "!"])
    state = run(body, backend)
    assert state.result == 43
    assert state.text() == "Age: 42 years!"
    assert backend.calls[1].prompt == backend.encode("Age: ") + backend.encode("42") + backend.encode(
        " years"
    )


def test_numbers_and_none_are_refused_at_their_line() -> None:
    for value in (5, None, 2.5, b"x"):

        def body(s: State, value: object = value) -> None:
            s += value

        with pytest.raises(TypeError, match="takes text and expressions"):
            run(body, ScriptedBackend([]))


# Variables


def test_typed_handles_read_what_they_generated() -> None:
    number = gen("n", int)
    unnamed = gen()

    def body(s: State) -> tuple[int, str]:
        s += "a" + number + "b" + unnamed
        return s[number] + 1, s[unnamed]

    assert run(body, ScriptedBackend([1, "x"])).result == (2, "x")


def test_unknown_variables_say_which_there_are() -> None:
    def body(s: State) -> None:
        s += "a" + gen("x")
        s["z"]

    with pytest.raises(KeyError, match="no variable 'z' in this state; it has 'x'"):
        run(body, ScriptedBackend(["a"]))


def test_variables_can_be_set_and_read() -> None:
    def body(s: State) -> None:
        s["score"] = 3
        assert s.value("score", int) == 3
        with pytest.raises(TypeError, match="'score' is int, not str"):
            s.value("score", str)
        with pytest.raises(InvalidRequest, match="set by the program"):
            s.meta("score")

    assert run(body, ScriptedBackend([])).variables() == {"score": 3}


def test_several_samples_give_a_list_and_the_state_goes_on_with_the_first() -> None:
    def body(s: State) -> None:
        s += user("q") + assistant(gen("a", n=3, max_tokens=4))

    state = run(body, ScriptedBackend(["one", "two", "six"]))
    assert state["a"] == ["one", "two", "six"]
    assert state.text().endswith("one")
    assert len(state.meta("a").samples) == 3


def test_a_var_scope_captures_the_text_between_also_after_an_exception() -> None:
    def body(s: State) -> None:
        s += "before "
        with s.var_scope("middle"):
            s += "the " + gen("x")
        s += " after"
        try:
            with s.var_scope("broken"):
                s += "half"
                raise LookupError
        except LookupError:
            pass

    state = run(body, ScriptedBackend(["word"]))
    assert state["middle"] == "the word"
    assert state["broken"] == "half"


# Checkpoints, scopes, files


def test_a_rollback_forgets_text_variables_and_failures() -> None:
    def body(s: State) -> None:
        s += "q" + gen("x")
        here = s.checkpoint()
        s += " more" + gen("y")
        with pytest.raises(ProgramError):
            s["y"]
        s.rollback(here)
        assert "y" not in s
        s += " else" + gen("z")

    state = run(body, ScriptedBackend(["a", ValueError("boom"), "b"]))
    assert state.text() == "qa elseb"


def test_a_rollback_cancels_what_still_runs() -> None:
    def body(s: State) -> None:
        s += "q"
        here = s.checkpoint()
        s += gen("x") + gen("after")
        s.rollback(here)
        s += " again: " + gen("y")

    def slow_at_first(prompt: str) -> Answer:
        return Answer(text="b", delay_s=60 * prompt.endswith("q"))

    assert run(body, ScriptedBackend(slow_at_first)).text() == "q again: b"


def test_a_timeout_block_cancels_its_calls_and_no_others() -> None:
    def body(s: State) -> None:
        s += "q"
        here = s.checkpoint()
        with s.timeout(0.02):
            s += gen("x")
        with pytest.raises(ProgramError, match=r"0\.02 s"):
            s["x"]
        s.rollback(here)
        s += gen("y")

    assert run(body, ScriptedBackend([Answer(text="slow", delay_s=60), "b"])).text() == "qb"


def test_a_call_may_have_a_timeout_of_its_own() -> None:
    def body(s: State) -> None:
        s += "q" + gen("x", timeout_s=0.02)
        s["x"]

    with pytest.raises(ProgramError, match=r"longer than its 0\.02 s"):
        run(body, ScriptedBackend([Answer(text="slow", delay_s=60)]))


def test_until_draws_again_with_other_seeds() -> None:
    def body(s: State) -> None:
        s += "n: " + gen("n", int, temperature=1.0).until(lambda n: n > 10)

    backend = ScriptedBackend([3, 7, 12])
    state = run(body, backend)
    assert state["n"] == 12 and state.meta("n").attempts == 3
    assert len({call.sampling.seed for call in backend.calls}) == 3
    assert len({call.prompt for call in backend.calls}) == 1


def test_until_gives_up_with_the_last_value() -> None:
    def body(s: State) -> None:
        s += "n: " + gen("n", int, temperature=1.0).until(lambda n: n > 10, attempts=2)

    with pytest.raises(ProgramError, match="none of 2 attempts was accepted; the last gave 7"):
        run(body, ScriptedBackend([3, 7]))


def test_until_at_temperature_zero_is_refused() -> None:
    def body(s: State) -> None:
        s += "n: " + gen("n", int).until(lambda n: n > 10)

    with pytest.raises(ProgramError, match="every attempt is the same"):
        run(body, ScriptedBackend([3]))


def test_scores_leave_the_state_as_it_is() -> None:
    def body(s: State) -> None:
        s += "q"
        good, bad = s.score([" yes", " xyzzy"])
        assert good.total > bad.total
        s += gen("x")
        assert len(s.prompt_logprobs().logprobs) == len(s.tokens()) - 1

    backend = ScriptedBackend(["a"], likes=[" yes"])
    assert run(body, backend).text() == "qa"


def test_a_saved_state_goes_on_where_it_stopped(tmp_path: Path) -> None:
    file = tmp_path / "state.json"

    def first(s: State) -> None:
        s.user("Why? ")
        s.assistant(gen("x"))
        s.save(file)

    def second(s: State) -> None:
        s.load(file)
        s.user("How?")
        s.assistant(gen("y"))

    backend = ScriptedBackend(["because ", "so"])
    before = run(first, backend)
    after = run(second, backend)
    assert after["x"] == "because "
    assert after.tokens()[: len(before.tokens())] == before.tokens()
    assert [message.content for message in after.messages()] == ["Why? ", "because ", "How?", "so"]


def contains_itself() -> object:
    value: list[object] = []
    value.append(value)
    return value


@pytest.mark.parametrize("make", [object, contains_itself, lambda: {"a": [object()]}, lambda: lambda: 0])
def test_a_variable_that_json_cannot_hold_is_named_and_nothing_is_written(
    tmp_path: Path, make: Callable[[], object]
) -> None:
    file = tmp_path / "state.json"
    file.write_text("before")

    def save(s: State) -> None:
        s += "text"
        s["good"] = {"a": 1}
        s["bad"] = make()
        s.save(file)

    with pytest.raises(
        InvalidRequest, match="save: variable 'bad' has a value that JSON cannot hold"
    ) as caught:
        run(save, ScriptedBackend([]))
    assert caught.value.param == "bad"
    assert file.read_text() == "before"


def test_a_saved_state_of_another_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "state.json"

    def save(s: State) -> None:
        s += "text"
        s.save(file)

    def load(s: State) -> None:
        s.load(file)

    run(save, ScriptedBackend([]))
    with pytest.raises(InvalidRequest, match="'other' runs here"):
        run(load, ScriptedBackend([], model="other"))


# Healing


def test_healing_takes_the_last_token_of_the_constant_back() -> None:
    def body(s: State) -> None:
        s += "The ans"
        s += gen("x", heal=True)

    backend = ScriptedBackend(["wer"])
    state = run(body, backend)
    taken = backend.encode("The ans")[-1:]
    assert backend.calls[0].prompt == backend.encode("The ans")[:-1]
    assert state["x"] == "wer"
    assert state.text() == "The answer"
    assert taken


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_texts_and_tokens_agree_for_any_constants(constants: list[str]) -> None:
    def body(s: State) -> None:
        s += "start"
        for index, constant in enumerate(constants):
            s += constant
            s += gen(f"x{index}")

    backend = ScriptedBackend(lambda prompt: "é x")
    state = run(body, backend)
    assert state.text() == "start" + "".join(constant + "é x" for constant in constants)
    assert backend.decode(state.tokens()) == state.text()


def test_a_state_shows_its_variables_without_waiting() -> None:
    def body(s: State) -> None:
        s += "q" + gen("slow")
        assert repr(s) == "<State s of body: slow (running)>"

    state = run(body, ScriptedBackend([Answer(text="a", delay_s=0.05)]))
    assert repr(state) == "<State s of body: slow>"


def test_system_and_user_accept_expressions() -> None:
    def body(s: State) -> None:
        s += system("a" + gen("x")) + user("b")

    assert run(body, ScriptedBackend(["1"])).text() == "a1\nb"
