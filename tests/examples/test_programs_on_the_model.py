"""Programs on the default model: shared tokens, calibrated choices, plans and replays of real runs."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import sgrt
from sgrt_frontend.trace import CallKind

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def engine() -> Iterator[sgrt.Engine]:
    try:
        made = sgrt.Engine("smollm2", num_pages=256, context_tokens=2048)
    except sgrt.SgrtError as missing:
        pytest.skip(str(missing))
    with made:
        yield made


@sgrt.function
def chat(s: sgrt.State) -> None:
    s.system("You answer in one short sentence.")
    for number, question in enumerate(["Name a fruit.", "What color is it?", "Where does it grow?"]):
        s.user(question)
        s.assistant(sgrt.gen(f"answer_{number}", max_tokens=12))


@sgrt.function
def mixed(s: sgrt.State, question: str) -> tuple[int, str]:
    s.user(question)
    with s.assistant():
        s += "Count: "
        number: int = s.gen(int)
    forks = s.fork(2)
    forks += [sgrt.user("Warm or cold?"), sgrt.user("A code:")]
    forks[0] += sgrt.assistant(sgrt.select("kind", ["warm", "cold"]))
    forks[1] += sgrt.assistant(sgrt.gen("code", regex="[A-C]{2}-[0-9]{2}"))
    return number, f"{forks[0]['kind']} {forks[1]['code']}"


QUICK = (
    "batch_evaluation chat few_shot_classification json_extraction judge multi_document_qa skeleton_of_thought streaming "
    "tree_of_thought typed_pipeline"
)


@pytest.mark.parametrize("name", QUICK.split())
def test_quick_examples_run_on_the_model(
    name: str, engine: sgrt.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    importlib.import_module(name).main(engine)
    assert engine.counters.preemptions == 0
    engine.check_integrity()


@pytest.mark.parametrize(
    "constants", [("Name: ", "\nAge: ", "\nHome: "), ('{"a": "', '", "b": "', '", "c": "')]
)
def test_whatever_surrounds_it_every_generated_token_is_reused(
    engine: sgrt.Engine, constants: tuple[str, ...]
) -> None:
    @sgrt.function
    def program(s: sgrt.State) -> None:
        for number, constant in enumerate(constants):
            s += constant
            s += sgrt.gen(f"x{number}", max_tokens=8)

    state = program.on(engine).run()
    calls = state.trace.ordered()
    for before, after in pairwise(calls):
        kept = before.prompt + before.samples[0].token_ids
        assert after.prompt[: len(before.prompt)] == before.prompt
        assert after.cached_tokens >= len(kept) - 2  # the last token is never there, an end token not kept


def test_turns_compute_their_own_tokens_only(engine: sgrt.Engine) -> None:
    state = chat.on(engine).run()
    for number in (1, 2):
        before = state.meta(f"answer_{number - 1}")
        usage = state.meta(f"answer_{number}").usage
        assert usage.cached_tokens >= before.usage.prompt_tokens + before.usage.output_tokens - 2
    plan = chat.on(engine).plan()
    assert plan.is_static and state.usage.prompt_tokens in plan.prompt_tokens


def test_runs_replay_without_the_model(engine: sgrt.Engine, tmp_path: Path) -> None:
    state = mixed.on(engine).run("How many legs has a cat?")
    number, rest = state.result
    assert isinstance(number, int) and rest.split()[0] in ("warm", "cold")
    sgrt.save_trace(state.trace, tmp_path / "trace.json")
    outcome = sgrt.replay(mixed, sgrt.load_trace(tmp_path / "trace.json"))
    assert outcome.divergence is None
    assert outcome.state.result == state.result
    again = sgrt.replay(mixed, state.trace, "How many legs has a bird?")
    assert again.divergence is not None and "cat" in str(again.divergence)


def test_choices_are_calibrated_against_free_generation(engine: sgrt.Engine) -> None:
    """The probability of a one-token choice is that of its token, shared among the choices."""

    @sgrt.function
    def program(s: sgrt.State) -> None:
        s += "The opposite of hot is"
        s += sgrt.select("word", [" cold", " warm", " blue"], open_ended=True)

    @sgrt.function
    def scores(s: sgrt.State) -> list[float]:
        s += "The opposite of hot is"
        return [score.total for score in s.score([" cold", " warm", " blue"])]

    state = program.on(engine).run()
    assert state["word"] == " cold"
    assert state.meta("word").unexplored <= 1e-4
    totals = scores.on(engine).run().result
    shares = state.meta("word").probabilities
    assert shares[" cold"] / shares[" blue"] == pytest.approx(
        2.718281828 ** (totals[0] - totals[2]), rel=0.05
    )


def test_the_cache_is_explained(engine: sgrt.Engine) -> None:
    engine.flush_cache_blocking()
    state = chat.on(engine).run()
    explained = sgrt.explain_cache(state.trace, page_tokens=2)
    assert [item.lost_tokens for item in explained] == [0, 0, 0]
    assert {call.kind for call in state.trace.calls} == {CallKind.GENERATE}
