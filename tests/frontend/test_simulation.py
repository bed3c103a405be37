"""Calls on paper: what they share, the pages they need, and the order in which they run."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from sgrt_frontend.planning.backend import PlannedCall
from sgrt_frontend.planning.cost import CostModel
from sgrt_frontend.planning.pages import PageCount
from sgrt_frontend.planning.simulation import Machine, simulate
from sgrt_frontend.planning.tree import PlanTree
from sgrt_frontend.planning.units import Unit, UnitKind, Units
from sgrt_frontend.trace import CallKind


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
    cost = CostModel(
        pass_s=1.0,
        prompt_token_s=0,
        output_token_s=0,
        prompt_context_s=0,
        output_context_s=0,
        context_read_s=0,
    )
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


def test_a_prompt_that_has_begun_is_promised_all_its_pages() -> None:
    """As in the engine, which admits nobody at the cost of those that run."""
    items = [[call("s#0", (number,) * 30)] for number in (1, 2)]
    machine = Machine(page_tokens=1, step_tokens=40)
    made = simulate(items, Units(), is_long=False, concurrency=2, machine=machine)
    assert made.passes == 2
    assert made.peak_pages == 60, "while the second prompt has computed 10 tokens"


def test_sequences_that_generate_read_their_common_context_once() -> None:
    """Two outputs of 11 tokens behind 30: ten passes read the prompt and what each output has by then."""
    cost = CostModel(
        pass_s=0,
        prompt_token_s=0,
        output_token_s=0,
        prompt_context_s=0,
        output_context_s=0,
        context_read_s=1.0,
    )
    units = Units()
    output = tuple(-units.add(Unit(kind=UnitKind.GENERATED, low=size, high=size)) for size in (10, 1))

    def seconds(prompts: tuple[int, int]) -> float:
        items = [
            [
                PlannedCall(
                    label="s#0",
                    variable="x",
                    kind=CallKind.GENERATE,
                    prompt=(number,) * 30,
                    output=output,
                    samples=samples,
                )
            ]
            for number, samples in zip(prompts, (2 if len(set(prompts)) == 1 else 1, 1), strict=True)
        ]
        made = simulate(
            items[: len(set(prompts))],
            units,
            is_long=False,
            concurrency=2,
            machine=Machine(page_tokens=1, cost=cost),
        )
        return made.seconds

    own = 2 * sum(range(1, 11))
    assert seconds((1, 2)) == 2 * 30 + 10 * 60 + own
    assert seconds((1, 1)) == 2 * 30 + 11 * 30 + own, "the second output is a pass behind the first"
