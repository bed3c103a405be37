"""The engine's step: requests in, the right tokens out."""

from __future__ import annotations

import numpy as np
import pytest
from engine_driver import END, Driver, alone
from numpy.typing import NDArray
from torch import Tensor
from word_grammar import WordGrammar, WordMatcher

from sgrt.engine.plan import Plan
from sgrt.engine.scripted import ScriptedRunner, continue_with
from sgrt_frontend.call import Origin, StopReason

PROMPT = list(range(1, 12))


def letters(text: str) -> list[int]:
    return [ord(letter) - ord("A") for letter in text]


def test_a_scripted_reply_comes_back_token_by_token() -> None:
    sink = Driver(continue_with(letters("HELLO"), end_token_id=END)).generate(PROMPT, max_tokens=20)
    assert sink.text() == "HELLO"
    assert [chunk.text for chunk in sink.chunks] == ["H", "E", "L", "L", "O", ""]
    finish = sink.finish()
    assert finish.reason is StopReason.END_OF_TEXT
    assert finish.stop == END
    assert (finish.usage.prompt_tokens, finish.usage.output_tokens) == (11, 5)


def test_the_end_token_does_not_count_and_max_tokens_does() -> None:
    driver = Driver(continue_with(letters("HELLO"), end_token_id=END))
    sink = driver.generate(PROMPT, max_tokens=3)
    assert sink.text() == "HEL"
    assert sink.finish().reason is StopReason.LENGTH


def test_a_full_hit_computes_one_token_and_gives_the_same() -> None:
    driver = Driver()
    first = driver.generate(range(16), max_tokens=1, logprobs=3)
    for _ in range(4):
        before = driver.core.stats.forward_tokens
        again = driver.generate(range(16), max_tokens=1, logprobs=3)
        assert again.chunks[0].logprobs == first.chunks[0].logprobs
        assert again.finish().usage.cached_tokens == 15
        assert driver.core.stats.forward_tokens - before == 1


def test_the_next_turn_reuses_prompt_and_output_but_for_the_last_token() -> None:
    driver = Driver()
    output = driver.generate(PROMPT, max_tokens=9, ignore_eos=True).tokens()
    second = driver.generate([*PROMPT, *output, 7, 7, 7], max_tokens=2)
    assert second.finish().usage.cached_tokens == len(PROMPT) + len(output) - 1


def test_requests_that_arrive_together_compute_their_prefix_once() -> None:
    driver = Driver(num_pages=400, context_tokens=200, max_running=40, step_tokens=64)
    shared = [token % 30 for token in range(101)]
    sinks = [driver.submit([*shared, extra, extra + 1], max_tokens=1)[1] for extra in range(32)]
    driver.run()
    assert [sink.finish().usage.cached_tokens for sink in sinks] == [0] + [101] * 31
    assert driver.core.stats.forward_tokens == 103 + 31 * 2


def test_several_outputs_share_the_prompt_and_differ() -> None:
    driver = Driver()
    sink = driver.generate(PROMPT, n=3, temperature=1.0, seed=7, max_tokens=6, ignore_eos=True)
    outputs = [sink.tokens(index) for index in range(3)]
    assert len({tuple(output) for output in outputs}) == 3
    assert sink.is_closed
    assert [sink.finish(index).usage.cached_tokens for index in range(3)] == [0, 10, 10]
    again = Driver().generate(PROMPT, n=3, temperature=1.0, seed=7, max_tokens=6, ignore_eos=True)
    assert [again.tokens(index) for index in range(3)] == outputs


def test_a_seeded_request_gives_the_same_tokens_in_any_company() -> None:
    options = {"temperature": 1.0, "seed": 5, "max_tokens": 12, "ignore_eos": True}
    expected = alone(PROMPT, **options)
    driver = Driver()
    for other in range(5):
        driver.submit([other, *PROMPT], temperature=0.7, seed=other, max_tokens=12)
    sinks = [driver.submit(PROMPT, **options)[1] for _ in range(2)]  # type: ignore[arg-type]
    driver.run()
    assert [sink.tokens() for sink in sinks] == expected * 2


@pytest.mark.parametrize("stop", [("DE",), ("E",), ("CDEF", "DE"), ("DEFG", "E")])
def test_stop_strings_end_the_text_before_them(stop: tuple[str, ...]) -> None:
    driver = Driver(continue_with(letters("ABCDEFGH"), end_token_id=END))
    sink = driver.generate([1], stop=stop, max_tokens=20)
    expected = "ABC" if "DE" in stop else "ABCD"
    assert sink.text() == expected
    assert sink.finish().reason is StopReason.STOP_STRING
    assert sink.finish().stop in stop


def test_a_stop_string_is_kept_on_request() -> None:
    driver = Driver(continue_with(letters("ABCDEF"), end_token_id=END))
    assert driver.generate([1], stop=("CD",), include_stop=True).text() == "ABCD"


def test_a_stop_token_ends_the_output_and_is_kept_on_request() -> None:
    script = continue_with(letters("ABCD"), end_token_id=END)
    sink = Driver(script).generate([1], stop_token_ids=(2,))
    assert (sink.tokens(), sink.finish().stop) == ([0, 1], 2)
    assert Driver(script).generate([1], stop_token_ids=(2,), include_stop=True).tokens() == [0, 1, 2]


def test_nothing_ends_the_text_before_min_tokens() -> None:
    script = continue_with(letters("AB"), end_token_id=END)
    sink = Driver(script).generate([1], min_tokens=4, max_tokens=10)
    assert len(sink.tokens()) == 4
    assert sink.tokens()[:2] == [0, 1]
    sink = Driver(continue_with(letters("ABCABC"), end_token_id=END)).generate([1], min_tokens=4, stop=("B",))
    assert sink.text() == "ABCA"


def test_end_tokens_are_ordinary_when_ignored() -> None:
    sink = Driver(continue_with(letters("AB"), end_token_id=END)).generate([1], ignore_eos=True, max_tokens=4)
    assert sink.tokens() == [0, 1, END, END]
    assert sink.finish().reason is StopReason.LENGTH


def test_padding_columns_are_never_drawn() -> None:
    driver = Driver(lambda prompt, output: {38: 90.0, 3: 1.0}, sampled_tokens=30)
    assert driver.generate([1], max_tokens=3).tokens() == [3, 3, 3]


def test_max_tokens_of_zero_warms_the_cache() -> None:
    driver = Driver()
    sink = driver.generate(PROMPT, max_tokens=0)
    assert (sink.tokens(), sink.finish().reason) == ([], StopReason.LENGTH)
    assert driver.generate(PROMPT, max_tokens=1).finish().usage.cached_tokens == 10


def test_a_cancelled_request_frees_its_pages_and_says_so() -> None:
    driver = Driver()
    job, sink = driver.submit(PROMPT, max_tokens=100, ignore_eos=True)
    for _ in range(4):
        driver.step()
    driver.core.cancel(job)
    assert sink.finish().reason is StopReason.CANCELLED
    assert sink.is_closed and not driver.core.has_work
    driver.core.scheduler.check_integrity()
    driver.core.scheduler.flush_cache()
    assert driver.core.scheduler.allocator.num_free == 64


def test_a_deadline_ends_running_and_waiting_requests() -> None:
    driver = Driver(max_running=1)
    _, running = driver.submit(PROMPT, max_tokens=100, ignore_eos=True, deadline_s=5.0)
    _, waiting = driver.submit([*PROMPT, 1], max_tokens=100, ignore_eos=True, deadline_s=3.0)
    _, patient = driver.submit([3, *PROMPT], max_tokens=2, ignore_eos=True)
    driver.run()
    assert running.finish().reason is StopReason.DEADLINE and 0 < len(running.tokens()) < 100
    assert waiting.finish().reason is StopReason.DEADLINE and waiting.tokens() == []
    assert patient.finish().reason is StopReason.LENGTH


def test_higher_priority_goes_first_and_waiting_counts() -> None:
    driver = Driver(max_running=2)
    order: list[int] = []
    sinks = [driver.submit([n, *PROMPT], max_tokens=6, ignore_eos=True)[1] for n in range(5)]
    sinks.append(driver.submit([9, *PROMPT], max_tokens=6, ignore_eos=True, priority=3)[1])
    sinks += [driver.submit([10 + n, *PROMPT], max_tokens=6, ignore_eos=True)[1] for n in range(5)]
    while driver.core.has_work:
        driver.step()
        order += [n for n, sink in enumerate(sinks) if sink.is_closed and n not in order]
    assert order.index(5) <= 2
    rest = [n for n in order if n != 5]
    assert all(abs(place - n) <= 1 for place, n in enumerate(n if n < 5 else n - 1 for n in rest))


def test_a_text_is_scored_like_it_is_generated() -> None:
    driver = Driver()
    sink = driver.generate(PROMPT, max_tokens=10, logprobs=0, ignore_eos=True)
    generated = [info.chosen.logprob for chunk in sink.chunks for info in chunk.logprobs]
    scorer = Driver(step_tokens=13)
    scored = scorer.score(PROMPT, [sink.tokens(), sink.tokens()[:3]])
    scorer.run()
    scores = scored.scores
    assert list(scores[0].logprobs) == pytest.approx(generated)
    assert list(scores[1].logprobs) == pytest.approx(generated[:3])
    assert scorer.core.stats.forward_tokens == len(PROMPT) + 9, (
        "the shorter text is a beginning of the longer"
    )


def test_scoring_shares_the_prefix() -> None:
    driver = Driver()
    driver.score([*range(30)], [[1, 2], [3], [4, 5, 6]])
    driver.run()
    # the row behind the prefix scores all three, and each longer text goes on from it
    assert driver.core.stats.forward_tokens == (30 + 1) + 2


WORDS = WordGrammar([letters("CATALOG"), letters("CATALYST"), letters("DOG")], end_token_id=END)


def test_drafts_leave_room_for_prompts() -> None:
    word = [place % 30 for place in range(400)]
    driver = Driver(num_pages=400, max_running=4, step_tokens=18, max_draft_tokens=16)
    busy = [
        driver.submit([n], grammar=WordGrammar([word], end_token_id=END), max_tokens=400)[1] for n in range(2)
    ]
    for _ in range(3):
        driver.step()
    _, prompt = driver.submit(range(20), max_tokens=1)
    for _ in range(8):
        driver.step()
    assert prompt.is_closed
    assert not any(sink.is_closed for sink in busy)


def test_constrained_output_is_a_word_of_the_grammar() -> None:
    for first in range(10):
        sink = Driver().generate([first], grammar=WORDS, max_tokens=20)
        assert sink.tokens() in [list(word) for word in WORDS.words]
        assert sink.finish().reason is StopReason.END_OF_TEXT


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.5, "seed": 3}])
@pytest.mark.parametrize("first", range(4))
def test_forced_drafts_change_nothing_but_the_number_of_steps(
    first: int, sampling: dict[str, object]
) -> None:
    plain_driver, fast_driver = Driver(max_draft_tokens=0), Driver()
    plain = plain_driver.generate([first], grammar=WORDS, max_tokens=20, logprobs=2, **sampling)
    fast = fast_driver.generate([first], grammar=WORDS, max_tokens=20, logprobs=2, **sampling)
    assert plain.tokens() == fast.tokens()
    infos = [[info for chunk in sink.chunks for info in chunk.logprobs] for sink in (plain, fast)]
    for left, right in zip(*infos, strict=True):
        assert left.chosen.token_id == right.chosen.token_id
        assert left.chosen.logprob == pytest.approx(right.chosen.logprob, abs=1e-5)
    assert fast_driver.core.stats.steps < plain_driver.core.stats.steps


def test_forced_tokens_are_counted_and_marked() -> None:
    sink = Driver().generate([1], grammar=WordGrammar([letters("YES"), letters("NO")], end_token_id=END))
    origins = [origin for chunk in sink.chunks for origin in chunk.origins]
    assert origins[0] is Origin.CONSTRAINED
    assert set(origins[1:]) == {Origin.FORCED}
    assert sink.finish().usage.forced_tokens == len(origins) - 1


def test_a_wholly_forced_text_needs_one_pass() -> None:
    driver = Driver()
    sink = driver.generate([1], grammar=WordGrammar([letters("YES")], end_token_id=END))
    assert sink.text() == "YES"
    assert driver.core.stats.steps == 1


class LoggedMatcher(WordMatcher):
    """Writes down when masks are filled."""

    def __init__(self, grammar: WordGrammar, log: list[str]) -> None:
        super().__init__(grammar)
        self._log = log

    def mask(self, out: NDArray[np.uint32], remaining: int | None = None) -> None:
        self._log.append("mask")
        super().mask(out, remaining)


class LoggedGrammar(WordGrammar):
    """Whose matchers write down when masks are filled."""

    log: list[str]

    def matcher(self) -> WordMatcher:
        return LoggedMatcher(self, self.log)


def test_masks_are_filled_once_the_pass_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    grammar = LoggedGrammar([letters("CATALOG"), letters("DOG")], end_token_id=END)
    grammar.log = []
    driver = Driver(max_draft_tokens=0)
    run = ScriptedRunner.run

    def logged(runner: ScriptedRunner, plan: Plan) -> Tensor:
        grammar.log.append("run")
        return run(runner, plan)

    monkeypatch.setattr(ScriptedRunner, "run", logged)
    driver.submit([1], grammar=grammar)
    for _ in range(3):
        driver.step()
        assert grammar.log[0] == "run"
        assert "mask" in grammar.log[1:]
        grammar.log.clear()


def test_a_budget_that_decides_the_word_is_told() -> None:
    words = WordGrammar([letters("NO"), letters("NOTHING")], end_token_id=END)
    driver = Driver(continue_with(letters("NOTHING"), end_token_id=END))
    sink = driver.generate([1], grammar=words, max_tokens=5)
    assert (sink.text(), sink.finish().reason) == ("NO", StopReason.BUDGET)
    sink = driver.generate([2], grammar=words, max_tokens=7)
    assert (sink.text(), sink.finish().reason) == ("NOTHING", StopReason.END_OF_TEXT)


def test_a_budget_that_decides_is_told_before_min_tokens_and_far_from_the_end() -> None:
    early = WordGrammar([letters("YES"), letters("NOTHING")], end_token_id=END)
    driver = Driver(continue_with(letters("NOTHING"), end_token_id=END), num_pages=400)
    sink = driver.generate([1], grammar=early, max_tokens=5, min_tokens=2)
    assert (sink.text(), sink.finish().reason) == ("YES", StopReason.BUDGET)
    long = WordGrammar([[0] * 300, letters("N") * 310], end_token_id=END)
    sink = driver.generate([1], grammar=long, max_tokens=305)
    assert (len(sink.tokens()), sink.finish().reason) == (300, StopReason.BUDGET)


def test_min_tokens_delays_the_end_of_a_constrained_text_where_it_can() -> None:
    words = WordGrammar([letters("NO"), letters("NOTHING")], end_token_id=END)
    driver = Driver(continue_with(letters("NO"), end_token_id=END))
    assert driver.generate([1], grammar=words, max_tokens=9).text() == "NO"
    assert driver.generate([1], grammar=words, max_tokens=9, min_tokens=3).text() == "NOTHING"


def test_penalties_follow_the_output() -> None:
    driver = Driver(lambda prompt, output: {5: 2.0, 6: 1.5})
    assert driver.generate([5, 5, 6], presence_penalty=1.5, max_tokens=1).tokens() == [5]
    assert driver.generate([1], presence_penalty=1.5, max_tokens=2).tokens() == [5, 6]
    assert driver.generate([5, 6], repetition_penalty=4.0, max_tokens=1).tokens() == [5]
    assert driver.generate([5, 5], repetition_penalty=4.0, max_tokens=1).tokens() == [6]


def test_a_bias_steers_and_logprobs_stay_the_models() -> None:
    driver = Driver(lambda prompt, output: {5: 2.0})
    plain = driver.generate([1], max_tokens=1, logprobs=1)
    biased = driver.generate([1], max_tokens=1, logprobs=1, logit_bias=((7, 50.0),), temperature=2.0)
    assert (plain.tokens(), biased.tokens()) == ([5], [7])
    assert plain.chunks[0].logprobs[0].top == biased.chunks[0].logprobs[0].top
