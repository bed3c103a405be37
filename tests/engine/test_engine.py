"""The engine as users meet it: threads, event loops, errors, cancellation, closing."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from scripted_engine import CONTEXT_TOKENS, END, saying, scripted_engine, tokenizer
from tiny_models import VOCABULARY

from sgrt.config import EngineConfig, EngineSettings
from sgrt.engine.engine import Engine
from sgrt.errors import BackendError, ConstraintError, ContextOverflow, InvalidRequest
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Call, Chunk, Message, Role, SamplingParams, StopReason
from sgrt_grammars.constraint import Choice, JsonSchema, Regex

HELLO = tokenizer().encode("say hello")
PADDING = VOCABULARY - 1  # has a row of the embedding and no token


def call(prompt: Sequence[int] = HELLO, *, deadline_s: float | None = None, **sampling: object) -> Call:
    params = {"max_tokens": 20, **sampling}
    return Call(
        prompt=tuple(prompt),
        sampling=SamplingParams(**params),  # type: ignore[arg-type]  # test keywords
        deadline_s=deadline_s,
    )


def endless(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    return {65 + len(output) % 20: 9.0}


def test_an_engine_is_a_backend() -> None:
    with scripted_engine(saying("hello")) as engine:
        backend: Backend = engine
        description = backend.describe()
        assert description.context_tokens == CONTEXT_TOKENS
        assert description.end_token_ids == (END,)
        assert backend.decode(backend.encode("hé")) == "hé"
        assert backend.spelling().bytes_of(backend.encode("hé")) == "hé".encode()
        rendered = backend.render([Message(role=Role.USER, content="<|im_end|>")], open_assistant=True)
        assert rendered.count(END) == 1


def test_ordinary_code_completes_a_call() -> None:
    with scripted_engine(saying("hello, world")) as engine:
        (completion,) = engine.complete(call())
    assert completion.text == "hello, world"
    assert completion.finish.reason is StopReason.END_OF_TEXT


def test_async_code_streams_a_call_inside_a_running_loop() -> None:
    async def run(engine: Engine) -> list[Chunk]:
        return [chunk async for chunk in engine.generate(call())]

    with scripted_engine(saying("hello")) as engine:
        chunks = asyncio.run(run(engine))
        assert "".join(chunk.text for chunk in chunks) == "hello"
        assert [chunk.finish is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]


def test_ordinary_calls_work_inside_a_running_loop() -> None:
    async def run(engine: Engine) -> str:
        return engine.complete(call())[0].text

    with scripted_engine(saying("hello")) as engine:
        assert asyncio.run(run(engine)) == "hello"


def test_many_calls_from_many_threads_and_loops() -> None:
    texts: list[str] = []

    def work(engine: Engine, number: int) -> None:
        prompt = tokenizer().encode(f"number {number}")
        if number % 2:
            texts.append(engine.complete(call(prompt))[0].text)
        else:
            texts.append(asyncio.run(_text(engine, call(prompt))))

    with scripted_engine(saying("hello")) as engine:
        threads = [threading.Thread(target=work, args=(engine, number)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        engine.check_integrity()
    assert texts == ["hello"] * 16


async def _text(engine: Engine, asked: Call) -> str:
    return "".join([chunk.text async for chunk in engine.generate(asked)])


def test_closing_the_iterator_cancels_and_frees_pages() -> None:
    async def run(engine: Engine) -> int:
        count = 0
        chunks = engine.generate(call(max_tokens=4000))
        async for _ in chunks:
            count += 1
            if count == 3:
                break
        await chunks.aclose()  # type: ignore[attr-defined]  # an async generator
        return count

    with scripted_engine(endless) as engine:
        assert asyncio.run(run(engine)) == 3
        engine.check_integrity()  # runs after the cancellation
        assert engine.counters.finished == 1
        asyncio.run(engine.flush_cache())
        assert engine.complete(call(max_tokens=2))[0].finish.usage.cached_tokens == 0


def test_leaving_a_stream_early_cancels_it() -> None:
    with scripted_engine(endless) as engine:
        with engine.submit(call(max_tokens=4000)) as stream:
            next(iter(stream))
        engine.check_integrity()
        assert engine.counters.finished == 1


def test_a_deadline_ends_a_call_with_what_it_has() -> None:
    with scripted_engine(endless) as engine:
        (completion,) = engine.complete(call(max_tokens=4000, deadline_s=0.05))
        assert completion.finish.reason is StopReason.DEADLINE
        (late,) = engine.complete(call(max_tokens=4000, deadline_s=0.0))
        assert (late.token_ids, late.finish.reason) == ((), StopReason.DEADLINE)


def test_closing_the_engine_ends_what_runs_and_refuses_more() -> None:
    engine = scripted_engine(endless)
    stream = engine.submit(call(max_tokens=4000))
    chunks = iter(stream)
    next(chunks)
    engine.close()
    engine.close()
    assert [chunk.finish for chunk in chunks][-1].reason is StopReason.CANCELLED  # type: ignore[union-attr]
    with pytest.raises(BackendError, match="closed"):
        engine.complete(call())
    assert not engine.is_healthy()


def test_closing_releases_the_model() -> None:
    closed: list[bool] = []
    scripted_engine(endless, close=lambda: closed.append(True)).close()
    assert closed == [True]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failing_model_fails_its_calls_and_says_why() -> None:
    def broken(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        if len(output) == 2:
            raise ZeroDivisionError("a bug")
        return {65: 9.0}

    with scripted_engine(broken) as engine:
        with pytest.raises(BackendError, match="ZeroDivisionError: a bug"):
            engine.complete(call())
        with pytest.raises(BackendError, match="a bug"):
            engine.complete(call())
        assert not engine.is_healthy()


def test_prompts_beyond_the_context_are_refused_with_both_lengths() -> None:
    with scripted_engine(endless) as engine:
        with pytest.raises(
            ContextOverflow, match=r"a prompt of 4090 tokens with 20 to follow is longer than .* 4096 tokens"
        ):
            engine.complete(call([65] * 4090))
        with pytest.raises(ContextOverflow, match=r"5000 tokens.* 4096"):
            engine.complete(call([65] * 5000, max_tokens=None))


def test_a_request_the_pool_can_never_hold_is_refused_up_front() -> None:
    with scripted_engine(endless, num_pages=2) as engine:
        assert len(engine.complete(call([65] * 40, max_tokens=25))[0].token_ids) == 25
        with pytest.raises(ContextOverflow, match="the KV pool of 64 tokens"):
            engine.complete(call([65] * 40, max_tokens=26))
        assert len(engine.complete(call([65] * 40, max_tokens=None))[0].token_ids) == 25


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        (call([]), "prompt"),
        (call([9999]), "prompt"),
        (call(stop_token_ids=(9999,)), "stop_token_ids"),
        (call(logit_bias=((9999, 1.0),)), "logit_bias"),
        (Call(prompt=HELLO, constraint=Choice(options=("a",)), sampling=SamplingParams(stop=("x",))), "stop"),
        (
            Call(
                prompt=HELLO, constraint=Choice(options=("a",)), sampling=SamplingParams(stop_token_ids=(3,))
            ),
            "stop_token_ids",
        ),
        (call(deadline_s=-1.0), "deadline_s"),
        (call(deadline_s=float("inf")), "deadline_s"),
        (call(deadline_s=1e10), "deadline_s"),
        (call([PADDING]), "prompt"),
        (call(stop_token_ids=(PADDING,)), "stop_token_ids"),
        (call(logit_bias=((PADDING, 1.0),), temperature=1.0), "logit_bias"),
    ],
)
def test_wrong_calls_are_refused_and_name_the_parameter(asked: Call, param: str) -> None:
    with scripted_engine(endless) as engine, pytest.raises(InvalidRequest) as refused:
        engine.complete(asked)
    assert refused.value.param == param


NO_TOKEN = (PADDING, -1, 10**9, 1.0, "a")


@pytest.mark.parametrize(
    ("prefix", "continuations"),
    [
        ((), []),
        ((), [()]),
        ((), [(66,)]),
        *(((token,), []) for token in NO_TOKEN),
        *(((token,), [()]) for token in NO_TOKEN),
        *((HELLO, [(66,), (), (66, token)]) for token in NO_TOKEN),
    ],
)
def test_scores_that_are_wrong_as_asked_are_refused_even_where_nothing_is_computed(
    prefix: tuple[int, ...], continuations: list[tuple[int, ...]]
) -> None:
    with scripted_engine(endless) as engine:
        with pytest.raises(InvalidRequest):
            engine.score_blocking(prefix, continuations)
        with pytest.raises(InvalidRequest):
            asyncio.run(engine.score(prefix, continuations))
        if len(prefix) <= 1:
            with pytest.raises(InvalidRequest):
                asyncio.run(engine.prompt_logprobs(prefix))
        assert engine.is_healthy()


def test_no_continuations_have_no_scores() -> None:
    with scripted_engine(endless) as engine:
        assert engine.score_blocking(HELLO, []) == []
        assert [score.logprobs for score in asyncio.run(engine.score(HELLO, [()]))] == [()]


def test_scores_of_no_tokens_are_refused() -> None:
    with scripted_engine(endless) as engine:
        with pytest.raises(InvalidRequest, match="outside the vocabulary"):
            engine.score_blocking(HELLO, [(PADDING,)])
        with pytest.raises(InvalidRequest, match="must hold token ids only, not float"):
            engine.score_blocking(HELLO, [(1.0,)])  # type: ignore[list-item]  # wrong on purpose
        assert engine.is_healthy()


def test_a_constraint_shapes_what_the_model_says() -> None:
    with scripted_engine(saying("perhaps, who knows")) as engine:
        choice = Call(prompt=HELLO, constraint=Choice(options=("yes", "no", "perhaps")))
        assert engine.complete(choice)[0].text == "perhaps"
        number = Call(prompt=HELLO, constraint=Regex(pattern="[0-9]{3}"))
        assert engine.complete(number)[0].text.isdigit()


def test_a_budget_below_the_constraint_is_refused_before_any_work() -> None:
    with scripted_engine(endless) as engine:
        tight = Call(
            prompt=HELLO, constraint=Regex(pattern="[a-f]{30}"), sampling=SamplingParams(max_tokens=10)
        )
        with pytest.raises(ConstraintError, match="raise max_tokens to at least"):
            engine.complete(tight)
        assert engine.counters.steps == 0


def test_a_wrong_constraint_is_refused_and_says_where() -> None:
    with scripted_engine(endless) as engine:
        with pytest.raises(ConstraintError):
            engine.complete(Call(prompt=HELLO, constraint=Regex(pattern="(")))
        with pytest.raises(ConstraintError):
            engine.complete(Call(prompt=HELLO, constraint=JsonSchema(text='{"type": "nothing"}')))
        assert engine.complete(call(max_tokens=1))[0].token_ids


def test_seeds_make_calls_repeatable_and_an_engine_seed_makes_runs_repeatable() -> None:
    def flat(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        return {}

    def sample(engine: Engine, seed: int | None = None) -> tuple[int, ...]:
        return engine.complete(call(temperature=1.0, ignore_eos=True, seed=seed))[0].token_ids

    settings: EngineSettings = {"seed": 3}
    with scripted_engine(flat, settings=settings) as one, scripted_engine(flat, settings=settings) as two:
        assert sample(one, seed=7) == sample(one, seed=7) == sample(two, seed=7)
        assert sample(one) != sample(one)
    with scripted_engine(flat, settings=settings) as one, scripted_engine(flat, settings=settings) as two:
        assert sample(one) == sample(two)


def test_without_prefix_caching_nothing_is_reused_between_calls() -> None:
    with scripted_engine(endless, settings={"prefix_caching": False}) as engine:
        for _ in range(2):
            completions = engine.complete(call(range(40, 90), max_tokens=2, n=2))
            assert [completion.finish.usage.cached_tokens for completion in completions] == [0, 49]
        engine.score_blocking(list(range(40, 90)), [(1,), (2, 3)])
        with engine.submit(call(range(40, 120), max_tokens=4000)) as stream:
            next(iter(stream))
        engine.check_integrity()
        assert (engine.counters.pages_cached, engine.counters.pages_used) == (0, 0)


def test_scores_come_in_order_and_empty_continuations_score_nothing() -> None:
    with scripted_engine(lambda prompt, output: {66: 3.0, 67: 2.0}) as engine:
        scores = engine.score_blocking(HELLO, [(67,), (), (66, 66)])
        assert [len(score.logprobs) for score in scores] == [1, 0, 2]
        assert scores[2].logprobs[0] - scores[0].logprobs[0] == pytest.approx(1.0)
        assert asyncio.run(engine.score(HELLO, [(66,)]))[0].logprobs == scores[2].logprobs[:1]
        assert len(asyncio.run(engine.prompt_logprobs(HELLO)).logprobs) == len(HELLO) - 1
        with pytest.raises(InvalidRequest, match="begin_tokens"):
            engine.score_blocking((), [(66,)])


def test_characters_are_never_broken_and_a_cut_one_is_left_out() -> None:
    with scripted_engine(saying("őß 山川 👩‍🚀!")) as engine:
        with engine.submit(call(max_tokens=64)) as stream:
            pieces = [chunk.text for chunk in stream]
        assert "".join(pieces) == "őß 山川 👩‍🚀!"
        assert not any("\ufffd" in piece for piece in pieces)
    with scripted_engine(saying("ab世")) as engine:
        assert engine.complete(call(max_tokens=4))[0].text == "ab"


@pytest.mark.parametrize("leading", [1, 2, 7, 31, 32, 33, 64, 130])
def test_streams_and_whole_answers_agree_around_stop_strings(leading: int) -> None:
    with scripted_engine(saying("a" * leading + "STOPz")) as engine:
        asked = call(stop=("STOP",), max_tokens=leading + 10)
        with engine.submit(asked) as stream:
            pieces = [chunk.text for chunk in stream]
        assert "".join(pieces) == engine.complete(asked)[0].text == "a" * leading
        assert not any("S" in piece for piece in pieces)


def test_settings_and_configuration_name_the_same_fields() -> None:
    fields = set(EngineConfig.__dataclass_fields__) - {"model"}
    assert fields == set(EngineSettings.__annotations__)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compute": "int4"}, "compute"),
        ({"step_tokens": 10}, "step_tokens: must be at least max_running"),
        ({"memory_fraction": 2.0}, "memory_fraction"),
        ({"page_tokens": 0}, "page_tokens"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        EngineConfig(**settings)  # type: ignore[arg-type]  # wrong on purpose


def test_a_deadline_also_ends_a_call_whose_grammar_is_still_being_compiled() -> None:
    with scripted_engine(endless) as engine:
        gate = threading.Event()
        engine._grammars._thread.submit(gate.wait)  # the compiling thread is busy
        late = Call(prompt=HELLO, constraint=Choice(options=("a",)), deadline_s=0.05)
        (completion,) = engine.complete(late)
        assert completion.finish.reason is StopReason.DEADLINE
        gate.set()
        assert engine.complete(Call(prompt=HELLO, constraint=Choice(options=("a",))))[0].text == "a"


def test_known_grammars_do_not_wait_and_those_of_cancelled_calls_are_not_compiled() -> None:
    with scripted_engine(endless) as engine:
        known = Call(prompt=HELLO, constraint=Choice(options=("a",)))
        engine.complete(known)
        gate = threading.Event()
        engine._grammars._thread.submit(gate.wait)  # the compiling thread is busy
        assert engine.complete(known)[0].text == "a"
        unwanted = Choice(options=("b",))
        with engine.submit(Call(prompt=HELLO, constraint=unwanted)) as stream:
            pass
        assert stream.completions()[0].finish.reason is StopReason.CANCELLED
        gate.set()
        engine._grammars._thread.submit(int).result()
        assert engine._grammars._compiler.cached(unwanted) is None


def test_a_call_that_races_with_closing_is_refused_like_a_late_one() -> None:
    engine = scripted_engine(endless)
    engine._grammars.close()
    with pytest.raises(BackendError, match="closed"):
        engine.complete(Call(prompt=HELLO, constraint=Choice(options=("a",))))
    engine.close()


def test_a_start_that_fails_releases_the_model() -> None:
    closed: list[bool] = []
    with scripted_engine(endless) as engine:
        broken = replace(
            engine.parts,
            tokenizer=None,  # type: ignore[arg-type]  # wrong on purpose
            close=lambda: closed.append(True),
        )
    with pytest.raises(AttributeError):
        Engine.from_parts(broken)
    assert closed == [True]


def test_a_forgotten_engine_ends_its_calls_and_releases_the_model() -> None:
    closed = threading.Event()
    engine = scripted_engine(endless, close=closed.set)
    stream = engine.submit(call(max_tokens=4000))
    del engine
    gc.collect()
    assert closed.is_set()
    assert stream.completions()[0].finish.reason is StopReason.CANCELLED


def test_an_engine_collected_on_its_own_thread_ends_after_the_step() -> None:
    closed = threading.Event()
    engine = scripted_engine(endless, close=closed.set)
    stream = engine.submit(call(max_tokens=4000))
    engine._loop.ask(lambda core: engine.close()).result()
    assert stream.completions()[0].finish.reason is StopReason.CANCELLED
    assert closed.wait(10)
    with pytest.raises(BackendError, match="closed"):
        engine.complete(call())


def test_counters_settle_after_a_cancellation() -> None:
    with scripted_engine(endless) as engine:
        with engine.submit(call(max_tokens=4000)) as stream:
            next(iter(stream))
        engine.check_integrity()
        assert (engine.counters.running, engine.counters.queue_length) == (0, 0)
        assert engine.stats()["num_requests_running"] == 0
        assert engine.counters.pages_used == engine.counters.pages_cached


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_failed_integrity_check_is_told_to_who_asked() -> None:
    with scripted_engine(endless) as engine:
        engine._loop.ask(lambda core: core.scheduler.allocator.allocate(1)).result()  # a page nobody holds
        with pytest.raises(AssertionError, match="references"):
            engine.check_integrity()
        assert not engine.is_healthy()
