"""Sealed caches in whole engines: a hit, a miss, a rescoring, any company and any chunks give the same numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import TINY_MODELS, write_folder

from sgrt.checkpoint.location import resolve
from sgrt.config import ComputeMode, EngineSettings, KvCacheDtype
from sgrt.engine.completion import Completion
from sgrt.engine.engine import Engine
from sgrt.errors import ModelNotFound
from sgrt_frontend.call import Call, CallPlan, SamplingParams, Share
from sgrt_grammars.constraint import Regex
from sgrt_kernels.integer_pages import TILE_TOKENS

DTYPES: tuple[KvCacheDtype, ...] = ("auto", "bf16", "int8", "fp8_e4m3")
MODES: tuple[tuple[ComputeMode, KvCacheDtype], ...] = (
    *(("float32", dtype) for dtype in DTYPES),
    *(("auto", dtype) for dtype in ("int16", "int8", "fp8_e4m3")),
)
TOLERANCE = 1e-5
COMMON: EngineSettings = {
    "checks_integrity": True,
    "threads": 1,
    "context_tokens": 160,
}


def page_tokens(compute: ComputeMode) -> int:
    """Exact pages of the kernels hold integers, which come in tiles."""
    return TILE_TOKENS if compute == "auto" else 8


TEXTS = [[(7 * place * place + kind) % 250 for place in range(90)] for kind in (0, 3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("models") / "llama"
    model = TINY_MODELS["llama"]
    return str(write_folder(replace(model, config=MappingProxyType({**model.config, "head_dim": 32})), path))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A prompt, what follows it, and how it is drawn. Its first `kept` tokens are kept for others by a plan."""

    text: int
    length: int
    ending: tuple[int, ...] = ()
    max_tokens: int = 6
    n: int = 1
    pattern: str | None = None
    kept: int = 0

    def call(self) -> Call:
        return Call(
            prompt=(*TEXTS[self.text][: self.length], *self.ending),
            constraint=None if self.pattern is None else Regex(pattern=self.pattern),
            sampling=SamplingParams(
                max_tokens=self.max_tokens, n=self.n, temperature=0.7, seed=self.length, logprobs=2
            ),
            plan=None if self.kept == 0 else kept(self.text, self.kept),
        )


def kept(text: int, num_tokens: int, uses: int = 3) -> CallPlan:
    name = f"{text}.{num_tokens}"
    return CallPlan(shares=(Share(name=name, num_tokens=num_tokens, uses=uses),), group="run")


def numbers(completions: Sequence[Completion]) -> list[tuple[tuple[int, ...], list[float]]]:
    return [(c.token_ids, [info.chosen.logprob for info in c.logprobs]) for c in completions]


@cache
def alone(
    folder: str, compute: ComputeMode, dtype: KvCacheDtype, ask: Ask
) -> list[tuple[tuple[int, ...], list[float]]]:
    """What a request gives in a roomy engine with nothing cached: one chunk, no drafts, nobody else."""
    roomy: EngineSettings = {
        **COMMON,
        "compute": compute,
        "kv_cache_dtype": dtype,
        "page_tokens": page_tokens(compute),
        "num_pages": 80,
        "max_draft_tokens": 0,
        "prefix_caching": False,
    }
    with Engine(folder, **roomy) as engine:
        return numbers(engine.complete(ask.call()))


def numbers_of(outputs: list[tuple[tuple[int, ...], list[float]]]) -> list[float]:
    return [logprob for _, logprobs in outputs for logprob in logprobs]


def assert_same(
    left: list[tuple[tuple[int, ...], list[float]]], right: list[tuple[tuple[int, ...], list[float]]]
) -> None:
    for (tokens, logprobs), (others, other_logprobs) in zip(left, right, strict=True):
        assert tokens == others
        assert logprobs == pytest.approx(other_logprobs, abs=TOLERANCE)


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    length = draw(st.sampled_from([5, 8, 15, 16, 17, 31, 40, 63]))
    return Ask(
        text=draw(st.integers(0, 1)),
        length=length,
        kept=draw(st.sampled_from([0, 0, 4, 9, 21, 30])) % (length + 1),
        ending=tuple(draw(st.lists(st.integers(0, 2), max_size=2))),
        max_tokens=draw(st.sampled_from([2, 6, 20])),
        n=draw(st.sampled_from([1, 1, 2])),
        pattern=draw(st.sampled_from([None, None, "(abcdefghijklm|zyxwvutsrqponml)"])),
    )


@pytest.mark.parametrize(("compute", "dtype"), MODES)
@settings(max_examples=5, deadline=None)
@given(
    rounds=st.lists(st.lists(asks(), min_size=1, max_size=4), min_size=1, max_size=3),
    num_pages=st.sampled_from([12, 40]),
    step_tokens=st.sampled_from([19, 24, 64]),  # 3 requests and a page of the longest
    max_draft_tokens=st.sampled_from([0, 12]),
)
def test_every_schedule_gives_the_numbers_of_each_request_alone(
    folder: str,
    compute: ComputeMode,
    dtype: KvCacheDtype,
    rounds: list[list[Ask]],
    num_pages: int,
    step_tokens: int,
    max_draft_tokens: int,
) -> None:
    """Rounds of requests at once: preempted, forked, with drafts, on what earlier rounds left in the cache."""
    tight: EngineSettings = {
        **COMMON,
        "compute": compute,
        "kv_cache_dtype": dtype,
        "page_tokens": page_tokens(compute),
        "num_pages": num_pages,
        "step_tokens": step_tokens,
        "max_running": 3,
        "max_draft_tokens": max_draft_tokens,
    }
    with Engine(folder, **tight) as engine:
        for together in rounds:
            streams = [engine.submit(_spelled(ask).call()) for ask in together]
            for ask, stream in zip(together, streams, strict=True):
                assert_same(numbers(stream.completions()), alone(folder, compute, dtype, _spelled(ask)))
        engine.check_integrity()


def _spelled(ask: Ask) -> Ask:
    """A constrained text needs room for its shortest spelling."""
    if ask.pattern is None:
        return ask
    return replace(ask, max_tokens=20)


@pytest.fixture(params=MODES, ids=str)
def engine(request: pytest.FixtureRequest, folder: str) -> Iterator[Engine]:
    compute, dtype = request.param
    roomy: EngineSettings = {
        **COMMON,
        "compute": compute,
        "kv_cache_dtype": dtype,
        "page_tokens": page_tokens(compute),
        "num_pages": 60,
    }
    with Engine(folder, **roomy) as engine:
        yield engine


def test_a_hit_a_miss_and_a_rescoring_agree(engine: Engine) -> None:
    ask = Ask(text=0, length=37, max_tokens=30)
    miss = engine.complete(ask.call())
    hit = engine.complete(ask.call())
    assert miss[0].finish.usage.cached_tokens == 0
    assert hit[0].finish.usage.cached_tokens == 36
    assert_same(numbers(hit), numbers(miss))
    (tokens, logprobs) = numbers(miss)[0]
    prompt = ask.call().prompt
    scored = engine.score_blocking(prompt, [tokens])[0].logprobs
    engine.flush_cache_blocking()
    assert engine.score_blocking(prompt, [tokens])[0].logprobs == pytest.approx(scored, abs=TOLERANCE)
    # drawn at temperature 0.7, scored at 1: the score of the text itself is compared with a second one
    sampling = SamplingParams(max_tokens=len(tokens), temperature=0.0, logprobs=1)
    greedy = engine.complete(Call(prompt=prompt, sampling=sampling))
    again = engine.score_blocking(prompt, [greedy[0].token_ids])[0].logprobs
    assert again == pytest.approx(numbers(greedy)[0][1], abs=TOLERANCE)
    assert len(logprobs) == len(tokens)


def test_a_tail_is_copied_to_the_token_after_its_owner_went_on(engine: Engine) -> None:
    long = Ask(text=0, length=20, max_tokens=30)
    engine.complete(long.call())
    sibling = engine.complete(Ask(text=0, length=20, ending=(1,), max_tokens=2).call())
    assert sibling[0].finish.usage.cached_tokens == 20


@pytest.mark.parametrize("is_together", [False, True])
def test_a_kept_beginning_that_ends_inside_a_page_is_reused_to_the_token(
    engine: Engine, is_together: bool
) -> None:
    """Whether it was computed before or is being computed, and each time again."""
    calls = [
        replace(Ask(text=0, length=21, ending=(place, *TEXTS[1][:30])).call(), plan=kept(0, 21, uses=4))
        for place in range(4)
    ]
    if is_together:
        done = [stream.completions() for stream in [engine.submit(call) for call in calls]]
    else:
        done = [engine.complete(call) for call in calls]
    assert sorted(made[0].finish.usage.cached_tokens for made in done) == [0, 21, 21, 21]
    engine.check_integrity()
    engine.flush_cache_blocking()
    plain = engine.complete(replace(calls[3], plan=None))
    assert_same(numbers(done[3]), numbers(plain))


def test_the_tails_of_a_flushed_cache_are_free(engine: Engine) -> None:
    for length in (5, 20, 37):
        engine.complete(Ask(text=1, length=length).call())
    engine.flush_cache_blocking()
    engine.check_integrity()
    after = engine.complete(Ask(text=1, length=37).call())
    assert after[0].finish.usage.cached_tokens == 0


@pytest.mark.parametrize("dtype", ["int8", "fp8_e4m3"])
def test_sealed_pages_are_what_is_read(folder: str, dtype: KvCacheDtype) -> None:
    first_page, later = Ask(text=0, length=5, max_tokens=2), Ask(text=0, length=40)
    near = [numbers_of(alone(folder, "float32", kind, first_page)) for kind in ("auto", dtype)]
    assert near[1] == pytest.approx(near[0], abs=TOLERANCE)
    exact, sealed = (numbers_of(alone(folder, "float32", kind, later)) for kind in ("auto", dtype))
    assert sealed != pytest.approx(exact, abs=TOLERANCE)
    assert sealed[0] == pytest.approx(exact[0], abs=1.0)  # random weights amplify a rounding


@pytest.mark.model
@pytest.mark.parametrize("dtype", ["int8", "fp8_e4m3"])
def test_the_default_model_gives_the_same_numbers_cached_computed_and_rescored(dtype: KvCacheDtype) -> None:
    try:
        resolve("smollm2")
    except ModelNotFound as missing:
        pytest.skip(str(missing))
    with Engine("smollm2", kv_cache_dtype=dtype, num_pages=64, threads=1, checks_integrity=True) as engine:
        text = "The sea is calm tonight, the tide is full, the moon lies fair upon the straits; " * 4
        prompt = engine.encode(text)
        call = Call(prompt=prompt, sampling=SamplingParams(max_tokens=40, logprobs=1, temperature=0.0))
        miss, hit = engine.complete(call), engine.complete(call)
        assert hit[0].finish.usage.cached_tokens >= len(prompt) - 32
        assert_same(numbers(hit), numbers(miss))
        tokens, logprobs = numbers(miss)[0]
        engine.flush_cache_blocking()
        scored = engine.score_blocking(prompt, [tokens])[0].logprobs
        assert scored == pytest.approx(logprobs, abs=TOLERANCE)


def test_continuations_scored_together_have_the_scores_they_have_alone(engine: Engine) -> None:
    prefix = TEXTS[0][:27]
    rests = [TEXTS[1][:12], [*TEXTS[1][:5], 9, 9], [3], TEXTS[1][:30]]
    together = engine.score_blocking(prefix, rests)
    for rest, score in zip(rests, together, strict=True):
        engine.flush_cache_blocking()
        alone_score = engine.score_blocking(prefix, [rest])[0]
        assert score.logprobs == pytest.approx(alone_score.logprobs, abs=TOLERANCE)
