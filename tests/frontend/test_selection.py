"""select: calibrated probabilities, equal to brute force over all spellings."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from sgrt_frontend.call import Score, Usage
from sgrt_frontend.choice_search import ChoiceWeights, weigh
from sgrt_frontend.errors import ProgramError
from sgrt_frontend.expression import assistant, user
from sgrt_frontend.program import function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.select import Normalization, select
from sgrt_frontend.selection import probabilities
from sgrt_frontend.spelling import Spelling
from sgrt_frontend.state import State

# 40 tokens over the letters a, b, c and a blank: every string of up to three letters, a few with blanks, an end token.
LETTERS = "abc"
VOCABULARY = [b""] + [
    "".join(letters).encode() for size in (1, 2, 3) for letters in itertools.product(LETTERS, repeat=size)
]
VOCABULARY += [b" ", b"a ", b"b ", b"  ", b" a", b" b"]
END = 0


class TinyModel:
    """A random next-token distribution that depends on the whole prefix."""

    def __init__(self, seed: int, sharpness: float) -> None:
        self._seed = seed
        self._sharpness = sharpness
        self.calls = 0

    def logprobs(self, prefix: tuple[int, ...]) -> list[float]:
        generator = random.Random(f"{self._seed} {prefix}")
        logits = [generator.gauss(0, self._sharpness) for _ in VOCABULARY]
        total = math.log(sum(math.exp(logit) for logit in logits))
        return [logit - total for logit in logits]

    async def score(self, prefix: Sequence[int], continuations: Sequence[Sequence[int]]) -> list[Score]:
        self.calls += 1
        usage = Usage(prompt_tokens=len(prefix), cached_tokens=0, output_tokens=0)
        return [
            Score(
                logprobs=tuple(
                    self.logprobs((*prefix, *tokens[:position]))[token]
                    for position, token in enumerate(tokens)
                ),
                usage=usage,
            )
            for tokens in continuations
        ]


def spellings(data: bytes, *, may_overshoot_from: int | None = None) -> list[tuple[int, ...]]:
    """Every token sequence that spells `data`, or, past a position, begins with it."""
    found: list[tuple[int, ...]] = []

    def go(rest: bytes, tokens: tuple[int, ...]) -> None:
        if not rest:
            found.append(tokens)
            return
        for token, piece in enumerate(VOCABULARY):
            if piece and rest.startswith(piece):
                go(rest[len(piece) :], (*tokens, token))
            elif (
                piece and may_overshoot_from is not None and piece.startswith(rest) and len(piece) > len(rest)
            ):
                found.append((*tokens, token))

    go(data, ())
    return found


def brute_force(model: TinyModel, prefix: tuple[int, ...], choice: str, terminator: str, ends: bool) -> float:
    total = 0.0
    for tokens in spellings((choice + terminator).encode(), may_overshoot_from=0 if terminator else None):
        whole = (*tokens, END) if ends and not terminator else tokens
        total += math.exp(
            sum(model.logprobs((*prefix, *whole[:position]))[token] for position, token in enumerate(whole))
        )
    return total


def weighed(
    model: TinyModel, choices: Sequence[str], terminator: str, ends: bool, bound: float = 1e-7
) -> ChoiceWeights:
    return asyncio.run(
        weigh(
            (5, 7),
            choices,
            terminator=terminator,
            end_token_ids=(END,) if ends else (),
            spelling=Spelling(VOCABULARY),
            score=model.score,
            max_unexplored=bound,
        )
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("terminator", "ends"), [("", False), ("", True), (" ", False), (" ", True)])
def test_weights_equal_brute_force_over_all_spellings(seed: int, terminator: str, ends: bool) -> None:
    model = TinyModel(seed, sharpness=1.5)
    choices = ["ab", "abc", "cabc", "b"]
    found = weighed(model, choices, terminator, ends)
    expected = {choice: brute_force(model, (5, 7), choice, terminator, ends) for choice in choices}
    for choice in choices:
        assert found.weights[choice] == pytest.approx(expected[choice], abs=1e-5 * sum(expected.values()))


@pytest.mark.parametrize("seed", range(10))
def test_the_bound_holds(seed: int) -> None:
    model = TinyModel(seed, sharpness=3.0)
    choices = ["abcab", "bcabc", "cc"]
    found = weighed(model, choices, "", True, bound=1e-2)
    exact = sum(brute_force(model, (5, 7), choice, "", True) for choice in choices)
    missing = exact - sum(found.weights.values())
    assert (
        -1e-12 <= missing <= found.unexplored / (1 - found.unexplored) * sum(found.weights.values()) + 1e-12
    )
    assert found.unexplored <= 1e-2


def test_choices_share_one_search() -> None:
    model = TinyModel(1, sharpness=1.0)
    together = weighed(model, ["abcabc", "abcabb", "abcaba"], "", False, bound=1e-3)
    calls, model.calls = model.calls, 0
    for choice in ("abcabc", "abcabb", "abcaba"):
        weighed(model, [choice], "", False, bound=1e-3)
    assert calls < model.calls
    assert together.usage.prompt_tokens == 2


@function
def city(s: State, question: str) -> str:
    s += user(question)
    s += assistant(select("city", ["Paris", "Antidisestablishmentarianism"]))
    return s.value("city", str)


def test_a_long_choice_with_a_predictable_tail_does_not_win() -> None:
    """Mean log-probability per token prefers the long one; its probability is far smaller."""

    def model(prefix: tuple[int, ...]) -> list[float]:
        long = backend.encode("Antidisestablishmentarianism")
        paris = backend.encode("Paris")
        size = len(backend.tokenizer)
        for count in range(len(long) - 1, 0, -1):
            if prefix[-count:] == long[:count]:
                return peaked(size, {long[count]: 0.999})
        if prefix[-1] in (paris[-1], long[-1]):
            return peaked(size, {backend.tokenizer.end_token_id: 0.9})
        return peaked(size, {paris[0]: 0.3, long[0]: 0.01})

    backend = ScriptedBackend([], next_logprobs=model)
    state = city.on(backend).run("Which?")
    assert state.result == "Paris"
    shares = state.meta("city").probabilities
    assert shares["Paris"] == pytest.approx(0.3 / 0.31, abs=0.01)
    assert state.meta("city").unexplored <= 1e-4

    @function
    def biased(s: State) -> None:
        s += user("Which?")
        s += assistant(
            select(
                "city", ["Paris", "Antidisestablishmentarianism"], normalization=Normalization.TOKEN_LENGTH
            )
        )

    assert biased.on(backend).run()["city"] == "Antidisestablishmentarianism"


def peaked(size: int, weights: dict[int, float]) -> list[float]:
    rest = math.log((1 - sum(weights.values())) / (size - len(weights)))
    return [math.log(weights[token]) if token in weights else rest for token in range(size)]


def test_a_selection_can_be_drawn_and_repeated() -> None:
    @function
    def program(s: State) -> str:
        s += "x" + select("c", ["a", "b", "c"], temperature=1.0)
        return s.value("c", str)

    def drawn(seed: int) -> str:
        return program.on(ScriptedBackend([])).with_options(seed=seed).run().result

    assert {drawn(seed) for seed in range(20)} == {"a", "b", "c"}
    assert drawn(3) == drawn(3)


def test_the_choice_is_appended_and_the_next_call_goes_on_from_it() -> None:
    @function
    def program(s: State) -> None:
        s += "Answer: "
        s += select("c", ["yes", "no"])
        s += "."
        s += select("d", ["yes", "no"])

    backend = ScriptedBackend([], likes=["no"])
    state = program.on(backend).run()
    assert state.text() == "Answer: no.no"
    assert backend.decode(state.tokens()) == state.text()


def test_scored_tokens_spell_the_choice_alone() -> None:
    backend = ScriptedBackend([], likes=["any"])

    @function
    def program(s: State) -> None:
        s += "##" + select("x", ["any", "none"])

    program.on(backend).run()
    prompt = backend.encode("##")
    for scored in backend.scored:
        assert scored[: len(prompt)] == prompt
        rest = backend.decode(scored[len(prompt) :])
        assert "any".startswith(rest) or "none".startswith(rest)


@pytest.mark.parametrize("options", [{}, {"open_ended": True}, {"terminator": "."}])
def test_one_spelling_of_each_choice_takes_one_scoring_call(options: dict[str, Any]) -> None:
    @function
    def program(s: State) -> None:
        s += user("Which?")
        s += assistant(select("c", ["yes", "no"], all_spellings=False, **options))

    backend = ScriptedBackend([], likes=["no"])
    state = program.on(backend).run()
    assert state["c"] == "no" and state.text().endswith("no")
    assert len(backend.scored) == 1
    assert state.meta("c").unexplored == 1.0
    assert state.meta("c").probabilities["no"] > 0.99


def test_a_failing_score_names_the_selection() -> None:
    def broken(prefix: tuple[int, ...]) -> list[float]:
        raise OSError("no model")

    @function
    def program(s: State) -> None:
        s += "x" + select("c", ["a", "b"])
        s["c"]

    with pytest.raises(ProgramError, match="generating 'c' failed: OSError: no model"):
        program.on(ScriptedBackend([], next_logprobs=broken)).run()


def test_long_choices_are_told_apart_in_few_calls_and_the_bound_says_that_there_is_none() -> None:
    model = TinyModel(4, sharpness=2.0)
    choices = ["abcab" * 7, "cabba" * 7, "abcab" * 6 + "b"]
    found = weighed(model, choices, "", True, bound=1e-4)
    assert model.calls <= 8 + 3 * len(choices)  # a round of nodes more
    assert found.spellings.keys() == set(choices)
    assert all(0 < found.weights[choice] < 1e-14 for choice in choices)
    assert found.unexplored > 0.99
    for choice, (tokens, logprob) in found.spellings.items():
        assert Spelling(VOCABULARY).bytes_of(tokens) == choice.encode()
        prefixes = [(5, 7, *tokens[:place]) for place in range(len(tokens))]
        assert logprob == pytest.approx(
            sum(model.logprobs(prefix)[token] for prefix, token in zip(prefixes, tokens, strict=True))
        )


def test_choices_too_unlikely_for_a_float_are_compared_by_their_likeliest_spellings() -> None:
    usage = Usage(prompt_tokens=1, cached_tokens=0, output_tokens=0)
    found = ChoiceWeights(
        weights={"a": 0.0, "b": 0.0},
        spellings={"a": ((1,), -900.0), "b": ((2,), -901.0)},
        unexplored=1.0,
        usage=usage,
    )
    shares = probabilities(found, Normalization.NONE)
    assert shares["a"] == pytest.approx(math.e / (1 + math.e))
