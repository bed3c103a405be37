"""Plans: the calls and tokens of a program without a model, equal to a run where the program is static."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import pytest
from five_words import five_words
from planned_programs import branches, chat, chosen
from pydantic import BaseModel

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.gen import gen
from sgrt_frontend.planning.plan import PlanOptions
from sgrt_frontend.planning.report import report
from sgrt_frontend.planning.units import Bounds
from sgrt_frontend.program import Program, function
from sgrt_frontend.state import State
from sgrt_frontend.trace import CallKind


@pytest.mark.parametrize("program", [chat, branches])
def test_a_static_program_makes_exactly_the_planned_calls(program: Program[..., None]) -> None:
    planned = program.on(five_words()).plan()
    assert planned.is_static
    actual = five_words()
    state = program.on(actual).run()
    assert planned.calls == Bounds(len(actual.calls), len(actual.calls))
    [path] = planned.items[0]
    by_label = {call.label: call for call in actual.calls}
    for call in path.calls:
        assert len(by_label[call.label].prompt) in planned.units.size(call.prompt)
    assert state.usage.prompt_tokens in planned.prompt_tokens
    assert state.usage.output_tokens in planned.output_tokens


def test_chats_are_planned_to_the_token() -> None:
    planned = chat.on(five_words()).plan(turns=4)
    state = chat.on(five_words()).run(turns=4)
    assert planned.prompt_tokens == Bounds(state.usage.prompt_tokens, state.usage.prompt_tokens)
    assert planned.shared_tokens == Bounds(state.usage.cached_tokens, state.usage.cached_tokens)
    assert planned.output_tokens.is_exact and planned.peak_pages.is_exact
    assert planned.best_hit[0] == pytest.approx(state.usage.cached_tokens / state.usage.prompt_tokens)
    assert planned.longest_path == ("s#0", "s#1", "s#2", "s#3")


def test_branches_on_a_choice_are_planned_as_alternatives() -> None:
    planned = chosen.on(five_words()).plan()
    assert not planned.is_static and planned.is_complete
    [paths] = planned.items
    assert [len(path.calls) for path in paths] == [2, 3]
    assert planned.calls == Bounds(2, 3)
    actual = five_words()
    state = chosen.on(actual).run()
    assert len(state.trace.calls) in planned.calls


class Mood(Enum):
    GOOD = "good"
    BAD = "bad"


@pytest.mark.parametrize(("annotation", "paths"), [(bool, 2), (Mood, 2), (int, 1), (str, 1), (list[int], 1)])
def test_known_alternatives_are_enumerated_and_other_values_stay_open(annotation: type, paths: int) -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x", annotation, max_tokens=5)
        s += f"It is {s['x']}." + gen("y", max_tokens=5)

    planned = program.on(five_words()).plan()
    assert len(planned.items[0]) == paths
    assert planned.calls == Bounds(2, 2)
    assert planned.dynamic_from is None


@pytest.mark.parametrize(
    "look",
    [
        lambda text: text == "yes",
        lambda text: "y" in text,
        lambda text: text.startswith("y"),
        lambda text: text.strip() == "yes",
        lambda text: len(text),
        lambda text: bool(text),
        lambda text: text.split(),
        lambda text: int(text),
    ],
)
def test_looking_into_generated_text_ends_the_static_part_with_its_line(
    look: Callable[[str], object],
) -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x", max_tokens=5)
        if look(s["x"]):
            s += gen("y", max_tokens=5)

    planned = program.on(five_words()).plan()
    assert planned.dynamic_from is not None
    assert planned.dynamic_from.file.endswith("test_plan.py")
    assert planned.calls == Bounds(1, 1)
    assert "dynamic from" in report(planned)


def test_a_loop_on_a_number_is_dynamic_and_arithmetic_is_not() -> None:
    @function
    def program(s: State) -> None:
        s += "q"
        n: int = s.gen(int)
        s += f"Twice that is {n * 2 + 1}." + gen("x", max_tokens=5)
        for _ in range(n):
            s += gen("y", max_tokens=5)

    planned = program.on(five_words()).plan()
    assert planned.calls == Bounds(2, 2)
    assert planned.dynamic_from is not None


class Ticket(BaseModel):
    title: str
    urgent: bool
    count: int


def test_fields_of_models_can_be_passed_on() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("t", Ticket, max_tokens=9)
        ticket = s.value("t", Ticket)
        s += f"{ticket.title} x {ticket.count}" + gen("x", max_tokens=5)
        if ticket.urgent:
            s += gen("y", max_tokens=5)

    planned = program.on(five_words()).plan()
    assert planned.calls.low == 2 and planned.dynamic_from is not None


def test_retries_are_bracketed() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("n", int, temperature=1.0).until(lambda n: n > 3, attempts=4)

    assert program.on(five_words()).plan().calls == Bounds(1, 4)


def test_too_many_decisions_are_cut_off_and_said() -> None:
    @function
    def program(s: State) -> None:
        for number in range(4):
            s += "q" + gen(f"x{number}", bool)
            s[f"x{number}"]

    few = program.on(five_words()).plan_batch([()], PlanOptions(max_runs=5))
    assert len(few.items[0]) == 5 and not few.is_complete
    assert "more than 5 combinations" in report(few)
    assert len(program.on(five_words()).plan().items[0]) == 16


def test_errors_of_the_body_are_raised() -> None:
    @function
    def program(s: State) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        program.on(five_words()).plan()


def test_batches_share_between_their_items() -> None:
    alone = chat.on(five_words()).plan()
    both = chat.on(five_words()).plan_batch([(), ()])
    assert both.calls == Bounds(6, 6)
    assert both.shared_tokens.low > 2 * alone.shared_tokens.low


def test_nested_and_async_programs_are_planned() -> None:
    @function
    async def inner(s: State, word: str) -> None:
        s += word
        await s.agen(str, max_tokens=5)

    @function
    async def outer(s: State) -> None:
        s += "q" + gen("x", max_tokens=5)
        word = await s.get("x", str)
        children = [inner(word), inner("b")]
        for child in children:
            await child

    planned = outer.on(five_words()).plan()
    assert planned.calls == Bounds(3, 3)
    assert planned.dynamic_from is None
    first, second = planned.longest_path
    assert first == "s#0" and second == "s/n0#0"


def test_scores_are_planned() -> None:
    @function
    def program(s: State) -> None:
        s += "q"
        s.score([" a"])

    [path] = program.on(five_words()).plan().items[0]
    assert [call.kind for call in path.calls] == [CallKind.SCORE]


def test_only_text_can_be_left_open() -> None:
    @function
    def program(s: State, document: str, count: int) -> None:
        s += document * count

    with pytest.raises(InvalidRequest, match="count: only text can be left open"):
        program.on(five_words()).plan_open()
    assert program.on(five_words()).plan_open(count=2).calls == Bounds(0, 0)


def test_a_state_goes_on_without_the_stop_string_of_an_output() -> None:
    @function
    def program(s: State) -> None:
        s += "List: " + gen("x", max_tokens=20, stop=";") + gen("y", max_tokens=20)

    planned = program.on(five_words()).plan()
    drawn = {(0, "s#0"): 8, (0, "s#1"): 5}
    plain = planned.with_outputs(drawn)
    made = planned.with_outputs(drawn, kept={(0, "s#0"): 6})
    begin = plain.calls[0, "s#0"].prompt_tokens
    assert plain.calls[0, "s#1"].prompt_tokens == begin + 8
    assert made.calls[0, "s#1"].prompt_tokens == begin + 6
    assert made.calls[0, "s#0"].output_tokens == 8 and made.passes == plain.passes
    assert made.calls[0, "s#1"].shared_tokens == begin + 5, (
        "all that is kept was computed; the last token is again"
    )
