"""Traces: what they record, files, replay and its first divergence, the tracing page's format."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pydantic import BaseModel

from sgrt_frontend.chrome_trace import chrome_events, save_chrome_trace
from sgrt_frontend.errors import InvalidRequest, ProgramError
from sgrt_frontend.expression import assistant, user
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.replay import replay
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.select import select
from sgrt_frontend.state import State
from sgrt_frontend.trace import CallKind, Trace
from sgrt_frontend.trace_file import load_trace, save_trace


class Facts(BaseModel):
    city: str
    size: int


@function
def agent(s: State, question: str, shots: int = 1) -> str:
    s.system("Be brief. " * shots)
    s.user(question)
    forks = s.fork(2)
    forks += [user("a?"), user("b?")]
    forks += assistant(gen("part", stop=".") + " ")
    forks.join()
    s.assistant(gen("facts", schema=Facts))
    s.user("Which?")
    s.assistant(select("choice", ["red", "blue"]))
    s.score([" yes"])
    s.user("Number?")
    s.assistant(gen("n", int, temperature=0.8))
    return f"{s['part']} {s['facts'].city} {s['choice']} {s['n']}"


SCRIPT = ["one. more", "two. more", {"city": "Rome", "size": 3}, 7]


def recorded(tmp_path: Path) -> Trace:
    state = agent.on(ScriptedBackend(SCRIPT, likes=["blue"])).with_options(seed=5).run("Why?")
    save_trace(state.trace, tmp_path / "trace.json")
    return load_trace(tmp_path / "trace.json")


def test_a_trace_has_every_call_in_order(tmp_path: Path) -> None:
    trace = recorded(tmp_path)
    assert trace.program == "agent" and trace.seed == 5 and trace.model == "scripted"
    assert [(call.variable, call.kind) for call in trace.ordered()] == [
        ("part", CallKind.GENERATE),
        ("part", CallKind.GENERATE),
        ("facts", CallKind.GENERATE),
        ("choice", CallKind.SELECT),
        ("score", CallKind.SCORE),
        ("n", CallKind.GENERATE),
    ]
    assert all("test_trace.py:" in call.source for call in trace.calls)


def test_a_file_keeps_tokens_seeds_outputs_and_probabilities(tmp_path: Path) -> None:
    state = agent.on(ScriptedBackend(SCRIPT, likes=["blue"])).run("Why?")
    save_trace(state.trace, tmp_path / "trace.json")
    loaded = load_trace(tmp_path / "trace.json")
    for before, after in zip(state.trace.ordered(), loaded.ordered(), strict=True):
        assert before.prompt == after.prompt
        assert [piece.text for piece in before.before.pieces() if piece.tokens] == [
            piece.text for piece in after.before.pieces() if piece.tokens
        ]
        assert (before.sampling, before.samples, before.scores) == (
            after.sampling,
            after.samples,
            after.scores,
        )
        assert before.probabilities == after.probabilities


def test_shared_prefixes_are_written_once(tmp_path: Path) -> None:
    @function
    def wide(s: State) -> None:
        s += "a long shared prefix " * 100
        s.fork(50).__iadd__(gen("x"))

    state = wide.on(ScriptedBackend(lambda prompt: "a")).run()
    save_trace(state.trace, tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    assert len(document["calls"]) == 50 and len(document["pieces"]) == 1


def test_a_replay_needs_no_model_and_gives_the_same_values(tmp_path: Path) -> None:
    outcome = replay(agent, recorded(tmp_path))
    assert outcome.divergence is None and outcome.calls == 6
    assert outcome.state.result == "['one', 'two'] Rome blue 7"


def test_other_arguments_diverge_at_the_first_token_that_differs(tmp_path: Path) -> None:
    trace = recorded(tmp_path)
    outcome = replay(agent, trace, "Why not?")
    divergence = outcome.divergence
    assert divergence is not None
    assert divergence.label == "s/f0.0#0" and divergence.variable == "part"
    assert "'Why not?', where the trace has 'Why?'" in str(divergence)
    question = next(piece for piece in trace.ordered()[0].before.pieces() if piece.text == "Why?")
    assert question.parent is not None
    assert divergence.position == question.parent.length


def variant(sampling: float = 0.8, *, is_short: bool = False, choices: int = 2) -> object:
    @function
    def other(s: State, question: str) -> None:
        s.system("Be brief. ")
        s.user(question)
        forks = s.fork(2)
        forks += [user("a?"), user("b?")]
        forks += assistant(gen("part", stop=".") + " ")
        forks.join()
        s.assistant(gen("facts", schema=Facts))
        s.user("Which?")
        s.assistant(select("choice", ["red", "blue", "green"][:choices]))
        s.score([" yes"])
        if is_short:
            return
        s.user("Number?")
        s.assistant(gen("n", int, temperature=sampling))

    return other


@pytest.mark.parametrize(
    ("program", "label", "message"),
    [
        (variant(0.5), "s#3", r"other sampling: temperature 0\.8 -> 0\.5"),
        (variant(is_short=True), "s#3", "the program did not make it"),
        (variant(choices=3), "s#1", "another constraint"),
        (variant(), "", ""),
    ],
)
def test_changes_of_the_program_are_named(tmp_path: Path, program: object, label: str, message: str) -> None:
    outcome = replay(program, recorded(tmp_path), "Why?")  # type: ignore[arg-type]  # made by `function`
    if not label:
        assert outcome.divergence is None
        return
    assert outcome.divergence is not None
    assert outcome.divergence.label == label
    with pytest.raises(type(outcome.divergence), match=message):
        raise outcome.divergence


def test_calls_that_were_not_recorded_diverge(tmp_path: Path) -> None:
    @function
    def short(s: State) -> None:
        s += "q" + gen("x")

    @function
    def longer(s: State) -> None:
        s += "q" + gen("x") + gen("y")

    trace = short.on(ScriptedBackend(["a"])).run().trace
    outcome = replay(longer, trace)
    assert outcome.divergence is not None and "no such call" in str(outcome.divergence)


def test_retries_and_failures_replay(tmp_path: Path) -> None:
    @function
    def program(s: State) -> str:
        s += "q" + gen("n", int, temperature=1.0).until(lambda n: n == 2)
        copy = s.copy()
        copy += gen("bad")
        try:
            copy["bad"]
        except ProgramError:
            return "handled"
        return "not"

    trace = program.on(ScriptedBackend([1, 2, ValueError("boom")])).run().trace
    outcome = replay(program, trace)
    assert outcome.divergence is None
    assert outcome.state.result == "handled"
    assert outcome.state.meta("n").attempts == 2


def test_a_thousand_calls_replay_within_a_second(tmp_path: Path) -> None:
    @function
    async def program(s: State) -> None:
        s += "start"
        for number in range(1000):
            s += f" {number}:" + gen(f"x{number}")
            if number % 10 == 0:
                await s.get(f"x{number}")

    trace = program.on(ScriptedBackend(lambda prompt: " a")).run().trace
    save_trace(trace, tmp_path / "trace.json")
    loaded = load_trace(tmp_path / "trace.json")
    started = time.process_time()  # of this process: other work on the machine does not count
    outcome = replay(program, loaded)
    assert time.process_time() - started < 1.0
    assert outcome.calls == 1000 and outcome.divergence is None


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(InvalidRequest, match="not a trace"):
        load_trace(tmp_path / "x.json")


def test_the_tracing_page_gets_a_lane_per_state(tmp_path: Path) -> None:
    @function
    def program(s: State) -> None:
        s += "q"
        forks = s.fork(2)
        forks += gen("x")
        s += gen("y")

    trace = program.on(ScriptedBackend(lambda prompt: Answer(text="a", delay_s=0.01))).run().trace
    events = chrome_events(trace)
    bars = [event for event in events if event["ph"] == "X"]
    assert len(bars) == 3 and len({event["tid"] for event in bars}) == 3
    assert all(isinstance(event["dur"], float) and event["dur"] >= 9_000 for event in bars)
    save_chrome_trace(trace, tmp_path / "chrome.json")
    assert len(json.loads((tmp_path / "chrome.json").read_text())["traceEvents"]) == len(events)
