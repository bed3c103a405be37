"""Plans: the calls and tokens of a program without a model, equal to a run where the program is static."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.expression import assistant, system, user
from sgrt_frontend.gen import gen
from sgrt_frontend.planning.backend import PlannedCall
from sgrt_frontend.planning.cost import CostModel
from sgrt_frontend.planning.lint import lint
from sgrt_frontend.planning.pages import PageCount
from sgrt_frontend.planning.plan import PlanOptions, ProgramPlan
from sgrt_frontend.planning.regex_width import longest_match_bytes
from sgrt_frontend.planning.report import report
from sgrt_frontend.planning.simulation import Machine, simulate
from sgrt_frontend.planning.tree import PlanTree
from sgrt_frontend.planning.units import Bounds, Units
from sgrt_frontend.program import Program, function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.select import select
from sgrt_frontend.state import State
from sgrt_frontend.trace import CallKind

FIXED = {"max_tokens": 5, "ignore_eos": True}
FIVE = "a b c d e"  # five tokens


def backend() -> ScriptedBackend:
    assert len(ScriptedBackend([]).encode(FIVE)) == 5
    return ScriptedBackend(lambda prompt: FIVE, likes=["yes"])


@function
def chat(s: State, turns: int = 3) -> None:
    s.system("You are brief and kind.")
    for number in range(turns):
        s.user(f"Question {number}: what is next?")
        s.assistant(gen(f"a{number}", max_tokens=5, ignore_eos=True))


@function
def branches(s: State, topic: str = "trees") -> None:
    s += f"An essay about {topic} in several parts, each of them short and clear.\n"
    forks = s.fork(4)
    forks += lambda index: f"Part {index}: "
    forks += gen("part", max_tokens=5, ignore_eos=True)
    forks.join()
    s += "All parts: " + "; ".join(s.value("part", list)) + "\nSummary: "
    s += gen("summary", max_tokens=5, ignore_eos=True)


@function
def chosen(s: State) -> str:
    s += "Is it late?" + select("late", ["yes", "no"])
    if s["late"] == "yes":
        s += " Then go to bed." + gen("end", max_tokens=5, ignore_eos=True)
    else:
        s += " Stay." + gen("one", max_tokens=5, ignore_eos=True) + gen("two", max_tokens=5, ignore_eos=True)
    return s.text()


@pytest.mark.parametrize("program", [chat, branches])
def test_a_static_program_makes_exactly_the_planned_calls(program: Program[..., None]) -> None:
    planned = program.on(backend()).plan()
    assert planned.is_static
    actual = backend()
    state = program.on(actual).run()
    assert planned.calls == Bounds(len(actual.calls), len(actual.calls))
    [path] = planned.items[0]
    by_label = {call.label: call for call in actual.calls}
    for call in path.calls:
        assert len(by_label[call.label].prompt) in planned.units.size(call.prompt)
    assert state.usage.prompt_tokens in planned.prompt_tokens
    assert state.usage.output_tokens in planned.output_tokens


def test_chats_are_planned_to_the_token() -> None:
    planned = chat.on(backend()).plan(turns=4)
    state = chat.on(backend()).run(turns=4)
    assert planned.prompt_tokens == Bounds(state.usage.prompt_tokens, state.usage.prompt_tokens)
    assert planned.shared_tokens == Bounds(state.usage.cached_tokens, state.usage.cached_tokens)
    assert planned.output_tokens.is_exact and planned.peak_pages.is_exact
    assert planned.best_hit[0] == pytest.approx(state.usage.cached_tokens / state.usage.prompt_tokens)
    assert planned.longest_path == ("s#0", "s#1", "s#2", "s#3")


def test_branches_on_a_choice_are_planned_as_alternatives() -> None:
    planned = chosen.on(backend()).plan()
    assert not planned.is_static and planned.is_complete
    [paths] = planned.items
    assert [len(path.calls) for path in paths] == [2, 3]
    assert planned.calls == Bounds(2, 3)
    actual = backend()
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

    planned = program.on(backend()).plan()
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

    planned = program.on(backend()).plan()
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

    planned = program.on(backend()).plan()
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

    planned = program.on(backend()).plan()
    assert planned.calls.low == 2 and planned.dynamic_from is not None


def test_retries_are_bracketed() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("n", int, temperature=1.0).until(lambda n: n > 3, attempts=4)

    assert program.on(backend()).plan().calls == Bounds(1, 4)


def test_too_many_decisions_are_cut_off_and_said() -> None:
    @function
    def program(s: State) -> None:
        for number in range(4):
            s += "q" + gen(f"x{number}", bool)
            s[f"x{number}"]

    few = program.on(backend()).plan_batch([()], PlanOptions(max_runs=5))
    assert len(few.items[0]) == 5 and not few.is_complete
    assert "more than 5 combinations" in report(few)
    assert len(program.on(backend()).plan().items[0]) == 16


def test_errors_of_the_body_are_raised() -> None:
    @function
    def program(s: State) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        program.on(backend()).plan()


def test_batches_share_between_their_items() -> None:
    alone = chat.on(backend()).plan()
    both = chat.on(backend()).plan_batch([(), ()])
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
            await child.done()

    planned = outer.on(backend()).plan()
    assert planned.calls == Bounds(3, 3)
    assert planned.dynamic_from is None
    first, second = planned.longest_path
    assert first == "s#0" and second == "s/n0#0"


def test_scores_are_planned() -> None:
    @function
    def program(s: State) -> None:
        s += "q"
        s.score([" a"])

    [path] = program.on(backend()).plan().items[0]
    assert [call.kind for call in path.calls] == [CallKind.SCORE]


# Advice


def advice(program: Program[..., object]) -> list[str]:
    planned = program.on(backend()).plan_open()
    return [item.message for item in lint(planned)]


def test_variable_text_before_a_constant_is_pointed_out() -> None:
    @function
    def program(s: State, document: str) -> None:
        s += user(document + "\n\nSummarize the text above in one short sentence, then stop.")
        s += assistant(gen("x", max_tokens=5))

    [message] = advice(program)
    assert re.search(r"moving the constant before it shares \d+ more tokens", message)
    assert "Summarize the text above" in message


def test_constants_before_variable_text_need_no_advice() -> None:
    @function
    def program(s: State, document: str) -> None:
        s += system("Summarize the text in one short sentence, then stop.") + user(document)
        s += assistant(gen("x", max_tokens=5))

    assert advice(program) == []


def test_text_that_branches_share_may_stand_before_their_constants() -> None:
    @function
    def program(s: State, document: str) -> None:
        s.system("You are brief.")
        with s.user():
            s += document + "\n\n"
            forks = s.fork(2)
        forks += ["Summarize the text above in a sentence.", "Translate the text above into French."]
        forks += assistant(gen("x", max_tokens=5))

    assert advice(program) == []


def test_generations_without_a_limit_are_pointed_out() -> None:
    @function
    def program(s: State) -> None:
        s += "q" + gen("x")

    assert ["max_tokens" in message for message in advice(program)] == [True]


def test_a_pool_that_is_too_small_is_pointed_out() -> None:
    items = [()] * 8
    fits = chat.on(backend()).plan_batch(items, PlanOptions(pool_pages=1000))
    small = chat.on(backend()).plan_batch(items, PlanOptions(pool_pages=2, page_tokens=16))
    assert lint(fits) == []
    [item] = lint(small)
    assert "the pool has 2" in item.message


def test_only_text_can_be_left_open() -> None:
    @function
    def program(s: State, document: str, count: int) -> None:
        s += document * count

    with pytest.raises(InvalidRequest, match="count: only text can be left open"):
        program.on(backend()).plan_open()
    assert program.on(backend()).plan_open(count=2).calls == Bounds(0, 0)


# The parts


@given(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=8), min_size=1, max_size=12))
def test_the_tree_shares_what_a_set_of_prefixes_shares(sequences: Sequence[Sequence[int]]) -> None:
    tree, seen = PlanTree(len), set[tuple[int, ...]]()
    for sequence in sequences:
        tokens = tuple(sequence)
        known = max(size for size in range(len(tokens) + 1) if tokens[:size] in seen or size == 0)
        assert tree.shared(tokens) == known
        tree.insert(tokens)
        seen.update(tokens[:size] for size in range(1, len(tokens) + 1))


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=8), min_size=1, max_size=8),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_pages_equal_a_count_of_what_is_computed_and_still_needed(
    sequences: list[list[int]], page_tokens: int, random: Random
) -> None:
    calls = [tuple(sequence) for sequence in sequences]
    tree = PlanTree()
    for tokens in calls:
        tree.insert(tokens)
    pages = PageCount(tree, len, page_tokens=page_tokens)
    computed: set[tuple[int, ...]] = set()
    alive = list(calls)
    for tokens in random.sample(calls, len(calls)):
        for end in range(1, len(tokens) + 1):
            pages.fill(pages.path(tokens), 0, end)
            computed.add(tokens[:end])
            assert pages.in_use == brute_force(computed, alive, page_tokens)
        pages.end(tokens)
        alive.remove(tokens)
        assert pages.in_use == brute_force(computed, alive, page_tokens)
    assert pages.in_use == 0


def brute_force(computed: set[tuple[int, ...]], alive: list[tuple[int, ...]], page_tokens: int) -> int:
    """Pages by what stands in them: a page that is not full is counted unless one that goes on from it is."""
    needed = {prefix for prefix in computed if any(tokens[: len(prefix)] == prefix for tokens in alive)}
    filled = [
        prefix
        for prefix in needed
        if len(prefix) % page_tokens == 0
        or not any(len(other) == len(prefix) + 1 and other[:-1] == prefix for other in needed)
    ]
    return len(filled)


def call(label: str, prompt: tuple[int, ...]) -> PlannedCall:
    return PlannedCall(label=label, variable="x", kind=CallKind.GENERATE, prompt=prompt, output=())


def test_items_wait_for_a_free_place() -> None:
    cost = CostModel(pass_s=1.0, prompt_token_s=0, output_token_s=0, prompt_context_s=0, output_context_s=0)
    items = [[call("s#0", (number, number))] for number in (1, 2, 3)]

    def seconds(concurrency: int) -> float:
        machine = Machine(page_tokens=1, cost=cost)
        return simulate(items, Units(), is_long=False, concurrency=concurrency, machine=machine).seconds

    assert (seconds(1), seconds(2), seconds(3)) == (3.0, 2.0, 1.0)


def test_items_with_a_common_prefix_run_together() -> None:
    items = [[call("s#0", (*[number % 2] * 40, number + 5))] for number in range(6)]
    made = simulate(items, Units(), is_long=False, concurrency=1, machine=Machine(page_tokens=1))
    begins = [made.calls[item, "s#0"].begins for item in range(6)]
    assert sorted(range(6), key=begins.__getitem__) == [0, 2, 4, 1, 3, 5]
    assert made.peak_pages == 41


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        ("[A-C]-[0-9]{5}", 7),
        ("abc|de", 3),
        ("(?:ab){2,3}c?", 7),
        ("a{2}", 2),
        (r"\d{2}", 8),
        (r"\.\[", 2),
        ("[^a]", 4),
        ("é", 2),
        ("a*", None),
        ("a+b", None),
        ("a{2,}", None),
        (r"(?=a)b", None),
        (r"(a)\1", None),
        ("", 0),
    ],
)
def test_the_longest_match_of_a_regular_expression(pattern: str, longest: int | None) -> None:
    assert longest_match_bytes(pattern) == longest


def test_the_report_has_calls_totals_and_advice() -> None:
    planned: ProgramPlan = chosen.on(backend()).plan()
    text = report(planned)
    for part in (
        "chosen: one run, 2 paths",
        "s#0",
        "late",
        "test_plan.py:",
        "best cache hit",
        "peak KV pages",
    ):
        assert part in text


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
        planned = program.on(backend()).plan()
        assert planned.dynamic_from is not None, program.name
        assert planned.dynamic_from.file == __file__ and planned.calls == Bounds(1, 1)


def test_text_made_of_generated_text_can_be_passed_on() -> None:
    @function
    def program(s: State) -> str:
        s += "q" + gen("x", max_tokens=5)
        s += f"<{s['x']}>" + shown(s["x"]) + ", ".join([s["x"]]) + gen("y", max_tokens=5)
        return f"{s['y']}"

    assert program.on(backend()).plan().is_static


def shown(value: str) -> str:
    return f"<{value}>"
