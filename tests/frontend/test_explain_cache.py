"""explain_cache: the right cause for injected faults."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from sgrt_frontend.call import Message
from sgrt_frontend.explain_cache import CacheExplanation, MissCause, explain_cache
from sgrt_frontend.expression import assistant, system, user
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.scripted import Answer, ScriptedBackend, chat_markup
from sgrt_frontend.state import State
from sgrt_frontend.trace import Trace

RULES = (
    "You are a careful assistant of the harbor office. Ships come first, then trains, then everything else. "
)
TOOLS = ['{"name": "weather", "place": "str"}', '{"name": "tides", "day": "int"}', '{"name": "ships"}']


def prompts(*texts: str, backend: ScriptedBackend | None = None) -> list[CacheExplanation]:
    """One call after the other, each on a prompt of its own."""

    @function
    async def program(s: State) -> None:
        for number, text in enumerate(texts):
            branch = s.copy()
            branch += system(text) + user("What now?")
            branch.assistant(gen(f"x{number}"))
            await branch.get(f"x{number}")

    state = program.on(backend or ScriptedBackend(lambda prompt: "fine then")).run()
    return explain_cache(state.trace)


@pytest.mark.parametrize(
    ("first", "second", "cause"),
    [
        (f"Time: 10:31:07. {RULES}", f"Time: 10:32:55. {RULES}", MissCause.CHANGING_CONSTANT),
        (f"Request 8f3a91. {RULES}", f"Request 77b0c2. {RULES}", MissCause.CHANGING_CONSTANT),
        (RULES + "Monday. " + RULES, RULES + "Tuesday. " + RULES, MissCause.CHANGING_CONSTANT),
        (RULES + ", ".join(TOOLS), RULES + ", ".join([TOOLS[1], TOOLS[0], TOOLS[2]]), MissCause.REORDERED),
        (RULES + "\n".join(TOOLS), RULES + "\n".join(reversed(TOOLS)), MissCause.REORDERED),
        (f"Hello.  {RULES}", f"Hello. {RULES}", MissCause.WHITESPACE),
        (f"Hello.\n{RULES}", f"Hello.\n\n{RULES}", MissCause.WHITESPACE),
        (RULES + "Read this.", RULES + "Write that.", MissCause.NEVER_SEEN),
        ("Translate to French.", "Summarize in a line.", MissCause.NEVER_SEEN),
        (RULES, RULES, MissCause.REUSED),
    ],
)
def test_injected_faults_get_their_cause(first: str, second: str, cause: MissCause) -> None:
    before, after = prompts(first, second)
    assert before.cause is MissCause.NEVER_SEEN
    assert after.cause is cause
    assert after.like == before.label or cause is MissCause.NEVER_SEEN


def test_the_first_token_that_differs_is_named_with_both_texts() -> None:
    _, after = prompts(f"Time: 10:31. {RULES}", f"Time: 10:44. {RULES}")
    assert after.here.startswith("Time: 10:44") and after.before.startswith("Time: 10:31")
    assert 0 < after.position < 10
    assert after.lost_tokens == 0


def test_a_template_that_drifts_is_named() -> None:
    clock = iter(range(1000))

    def dated(messages: Sequence[Message], open_assistant: bool) -> Iterable[str | Message]:
        yield f"<|begin|>Today is day {day}.\n"
        yield from chat_markup(messages, open_assistant)

    day = next(clock)

    @function
    def program(s: State) -> None:
        s.user("What now?")
        s.assistant(gen("x"))

    traces = []
    backend = ScriptedBackend(lambda prompt: "fine", template=dated)
    for _ in range(2):
        traces.append(program.on(backend).run().trace)
        day = next(clock)
    both = joined(*traces)
    assert [explained.cause for explained in explain_cache(both)] == [
        MissCause.NEVER_SEEN,
        MissCause.TEMPLATE_DRIFT,
    ]


def joined(first: Trace, second: Trace) -> Trace:
    """Two runs as one trace, one after the other."""
    end = max(call.started_s + call.seconds for call in first.calls)
    later = [replace(call, started_s=call.started_s + end + 1) for call in second.calls]
    first.calls.extend(later)
    return first


class Forgetful(ScriptedBackend):
    """A cache that keeps nothing."""

    def _remember(self, tokens: tuple[int, ...]) -> int:
        return 0


def test_an_eviction_is_told_from_a_difference() -> None:
    _, after = prompts(RULES, RULES, backend=Forgetful(lambda prompt: "fine"))
    assert after.cause is MissCause.EVICTED
    assert after.lost_tokens == after.prompt_tokens - 1


def test_calls_side_by_side_are_not_called_evicted() -> None:
    @function
    def program(s: State) -> None:
        s += RULES
        forks = s.fork(2)
        forks += gen("x")

    trace = program.on(Forgetful(lambda prompt: Answer(text="a", delay_s=0.01))).run().trace
    assert [explained.cause for explained in explain_cache(trace)] == [
        MissCause.NEVER_SEEN,
        MissCause.IN_FLIGHT,
    ]


def test_turns_of_a_chat_are_reused() -> None:
    @function
    def chat(s: State) -> None:
        for number in range(3):
            s += user(f"question {number}") + assistant(gen(f"a{number}"))

    trace = chat.on(ScriptedBackend(lambda prompt: "some answer")).run().trace
    first, *later = explain_cache(trace)
    assert first.cause is MissCause.NEVER_SEEN
    assert all(
        explained.cause is MissCause.NEVER_SEEN for explained in later
    )  # new text is new, nothing is lost
    assert all(explained.lost_tokens == 0 for explained in later)
