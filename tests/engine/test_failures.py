"""What goes wrong in one call ends that call; the others never notice."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from engine_driver import END, Driver, alone
from scripted_engine import saying, scripted_engine, tokenizer
from word_grammar import WordGrammar, WordMatcher

from sgrt.engine.engine import Engine
from sgrt.errors import BackendError
from sgrt_frontend.call import Call, SamplingParams

PROMPT = list(range(1, 12))
OPTIONS = {"max_tokens": 8, "ignore_eos": True}


class BrokenGrammar(WordGrammar):
    """A grammar with a bug in `method` of its matchers, or in making them, once `after` tokens were taken."""

    def __init__(self, method: str, after: int) -> None:
        super().__init__([(1, 2, 3, 4), (1, 3, 3, 4)], end_token_id=END)
        self.method = method
        self.after = after

    def matcher(self) -> WordMatcher:
        if self.method == "matcher":
            raise ZeroDivisionError("a bug")
        return BrokenMatcher(self)


class BrokenMatcher(WordMatcher):
    """A matcher with the bug of its grammar."""

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_"):
            grammar, taken = self._grammar, self._taken
            assert isinstance(grammar, BrokenGrammar)
            if name == grammar.method and len(taken) >= grammar.after:
                raise ZeroDivisionError("a bug")
        return super().__getattribute__(name)


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("method", ["matcher", "mask", "advance", "forced_bytes", "is_exhausted", "row"])
def test_a_bug_in_one_grammar_ends_its_call_alone(method: str, after: int) -> None:
    driver = Driver()
    _, before = driver.submit(PROMPT, **OPTIONS)  # type: ignore[arg-type]  # test keywords
    _, broken = driver.submit([*PROMPT, 5], grammar=BrokenGrammar(method, after), max_tokens=8)
    _, after_it = driver.submit([*PROMPT, 6], **OPTIONS)  # type: ignore[arg-type]  # test keywords
    driver.run()
    assert [before.tokens()] == alone(PROMPT, **OPTIONS)
    assert [after_it.tokens()] == alone([*PROMPT, 6], **OPTIONS)
    assert isinstance(broken.error, BackendError)
    assert isinstance(broken.error.__cause__, ZeroDivisionError)
    driver.core.scheduler.flush_cache()
    assert driver.core.scheduler.allocator.num_free == driver.limits.num_pages


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0}, {"logprobs": 2}, {"presence_penalty": 1.0}])
def test_logits_that_are_no_numbers_end_the_call_and_are_never_drawn(options: dict[str, object]) -> None:
    def broken(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        is_sick = prompt[0] == 7 and len(output) == 2
        return dict.fromkeys(range(40), math.nan) if is_sick else {3: 1.0, END: -9.0}

    driver = Driver(broken)
    _, sick = driver.submit([7, 1], max_tokens=5, **options)  # type: ignore[arg-type]  # test keywords
    _, healthy = driver.submit([8, 1], max_tokens=5)
    driver.run()
    assert isinstance(sick.error, BackendError) and "not numbers" in str(sick.error)
    assert len(sick.tokens()) == 2
    assert healthy.tokens() == [3] * 5
    assert driver.core.stats.metrics()["corrupted_requests_total"] == 1


def test_scores_that_are_no_numbers_are_refused() -> None:
    driver = Driver(lambda prompt, output: dict.fromkeys(range(40), math.nan))
    sink = driver.score([1, 2], [[3]])
    driver.run()
    assert isinstance(sink.error, BackendError) and "not numbers" in str(sink.error)


def test_cancelled_scores_fail() -> None:
    driver = Driver()
    sink = driver.score([1, 2], [[3], [4]])
    driver.core.cancel_all()
    assert isinstance(sink.error, BackendError) and "cancelled" in str(sink.error)
    assert not driver.core.has_work


def test_closing_while_scores_run_says_so() -> None:
    engines: list[Engine] = []

    def closing(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        engines[0]._loop._request_stop()
        return {}

    with scripted_engine(closing) as engine:
        engines.append(engine)
        with pytest.raises(BackendError, match="the scores were cancelled"):
            engine.score_blocking([1, 2, 3], [(4,) * 600])


def test_a_call_beside_a_refused_one_is_served() -> None:
    with scripted_engine(saying("hello")) as engine:
        asked = Call(prompt=tokenizer().encode("say"), sampling=SamplingParams(max_tokens=9, top_k=2**31 - 1))
        assert engine.complete(asked)[0].text == "hello"
