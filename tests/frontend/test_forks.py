"""Forks: one prefix, variables of their own, joined or closed."""

from __future__ import annotations

import pytest
from program_runs import run

from sgrt_frontend.errors import Cancelled, InvalidRequest, ProgramError
from sgrt_frontend.expression import assistant
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scope import Scope
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.state import State


def test_forks_share_their_prefix_without_any_call() -> None:
    def body(s: State) -> None:
        s += "some long shared prefix of many words "
        forks = s.fork(3)
        assert len(forks) == 3
        forks += lambda index: f"branch {index}:"
        forks += gen("x")
        forks.join()
        s += "Joined: " + ", ".join(s.value("x", list)) + gen("y")

    backend = ScriptedBackend(["a", "b", "c", "d"])
    state = run(body, backend)
    assert state["x"] == ["a", "b", "c"]
    assert len(backend.calls) == 4
    shared = len(backend.encode("some long shared prefix of many words "))
    assert len({call.prompt[:shared] for call in backend.calls}) == 1


def test_forking_before_any_text_works() -> None:
    def body(s: State) -> None:
        forks = s.fork(2)
        forks[0] += "a" + gen("x", max_tokens=2)
        forks[1] += "b" + gen("x", max_tokens=2)
        forks.join()
        s += forks[0]["x"] + forks[1]["x"]

    state = run(body, ScriptedBackend(["1", "2"]))
    assert state["x"] == ["1", "2"]
    assert state.text() == "12"


def test_forks_see_the_variables_of_their_parent_and_may_update_them() -> None:
    def body(s: State) -> None:
        s["score"] = 1
        forks = s.fork(2)
        for index, fork in enumerate(forks):
            fork["score"] = fork.value("score", int) + index
        forks.join()

    assert run(body, ScriptedBackend([]))["score"] == [1, 2]


def test_joining_a_variable_that_one_fork_lacks_is_an_error_unless_filled() -> None:
    def body(s: State) -> None:
        forks = s.fork(2)
        forks[1]["note"] = "x"
        with pytest.raises(InvalidRequest, match="'note' was not set in fork 0"):
            forks.join()
        forks.join(note="none")

    assert run(body, ScriptedBackend([]))["note"] == ["none", "x"]


def test_forks_know_how_a_variable_of_the_parent_came_about() -> None:
    def body(s: State) -> None:
        s += "a" + gen("x")
        assert s.copy().meta("x").usage.output_tokens == 1

    run(body, ScriptedBackend(["a"]))


def test_a_failing_branch_fails_where_its_list_is_read() -> None:
    def body(s: State) -> None:
        s += "q"
        forks = s.fork(2)
        forks += gen("x")
        forks.join()
        s["x"]

    with pytest.raises(ProgramError, match="boom"):
        run(body, ScriptedBackend(["a", ValueError("boom")]))


def test_closing_forks_cancels_what_still_runs() -> None:
    def body(s: State) -> str:
        s += "q"
        with s.fork(2) as forks:
            forks[0] += gen("x")
            forks[1] += gen("x")
            first: str = forks[0]["x"]
        with pytest.raises(Cancelled):
            forks[1]["x"]
        return first

    assert run(body, ScriptedBackend(["fast", Answer(text="slow", delay_s=60)])).result == "fast"


def test_forks_inside_a_turn_end_it_with_their_own_text() -> None:
    def body(s: State) -> None:
        with s.user():
            s += "Ticket. "
            forks = s.fork(2)
        forks += ["Short?", "Long?"]
        forks += assistant(gen("x"))

    backend = ScriptedBackend(["a", "b"])
    run(body, backend)
    shown = sorted(backend.tokenizer.shown(call.prompt) for call in backend.calls)
    assert shown == [
        "<|user|>\nTicket. Long?<|end|>\n<|assistant|>\n",
        "<|user|>\nTicket. Short?<|end|>\n<|assistant|>\n",
    ]


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_copies_of_copies_nest_without_end(is_cancelled: bool) -> None:
    @function
    def body(s: State) -> str:
        s += "x"
        last = s
        for _ in range(1500):
            last = last.copy()
            last += "y"
        last += gen("v", max_tokens=2)
        found = last.value("v", str)
        if is_cancelled:
            s.cancel()
        return found

    assert body.on(ScriptedBackend(["a"])).run().result == "a"


def test_a_cancelled_state_takes_what_is_far_inside_with_it() -> None:
    @function
    def body(s: State) -> None:
        s += "x"
        last = s
        for _ in range(50):
            last = last.copy()
        last += gen("v")
        s.cancel()
        with pytest.raises(Cancelled):
            last["v"]

    body.on(ScriptedBackend([Answer(text="a", delay_s=60.0)])).run()


def test_a_scope_forgets_what_is_over() -> None:
    outer = Scope(None)
    kept = Scope(Scope(outer))  # the one between lives as long as the one inside
    for _ in range(3):
        Scope(outer)
    assert len(list(outer._tree())) == 3
    outer.cancel()
    assert kept.is_cancelled
    assert Scope(kept).is_cancelled
