"""Whole engines on real forward passes: tiny random models of every family, and the default model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from gguf import GGMLQuantizationType
from tiny_models import TINY_MODELS, write_folder, write_gguf

from sgrt.checkpoint.location import resolve
from sgrt.config import EngineSettings
from sgrt.engine.engine import Engine
from sgrt.errors import ModelNotFound
from sgrt_frontend.call import Call, Message, Role, SamplingParams, StopReason
from sgrt_grammars.constraint import Choice, JsonSchema
from sgrt_native import NativeUnavailable

EXACT: EngineSettings = {"compute": "float32", "checks_integrity": True, "threads": 1}
PROMPTS = [[(7 * place + kind) % 250 for place in range(45)] for kind in (0, 0, 3)]


@pytest.mark.parametrize("family", sorted(TINY_MODELS))
def test_paging_chunking_and_company_do_not_change_a_models_tokens(family: str, tmp_path: Path) -> None:
    folder = str(write_folder(TINY_MODELS[family], tmp_path / family))
    calls = [
        Call(prompt=(*prompt, 5 + n), sampling=SamplingParams(max_tokens=12))
        for n, prompt in enumerate(PROMPTS)
    ]
    roomy: EngineSettings = {**EXACT, "num_pages": 64, "context_tokens": 128}
    with Engine(folder, **roomy) as engine:
        alone = [engine.complete(call)[0].token_ids for call in calls]
    tight: EngineSettings = {
        **EXACT,
        "context_tokens": 128,
        "page_tokens": 8,
        "num_pages": 11,
        "step_tokens": 16,
        "max_running": 3,
    }
    with Engine(folder, **tight) as engine:
        streams = [engine.submit(call) for call in calls]
        together = [stream.completions()[0].token_ids for stream in streams]
        assert engine.counters.preemptions + engine.counters.evicted_pages > 0
        again = [engine.complete(call)[0] for call in calls]
    assert together == alone
    assert [completion.token_ids for completion in again] == alone


def test_cached_prompts_give_the_same_logprobs(tmp_path: Path) -> None:
    folder = str(write_folder(TINY_MODELS["llama"], tmp_path / "llama"))
    call = Call(prompt=tuple(PROMPTS[0]), sampling=SamplingParams(max_tokens=6, logprobs=3))
    roomy: EngineSettings = {**EXACT, "num_pages": 64, "context_tokens": 128}
    with Engine(folder, **roomy) as engine:
        cold, warm = engine.complete(call)[0], engine.complete(call)[0]
        assert (cold.finish.usage.cached_tokens, warm.finish.usage.cached_tokens) == (0, 44)
        for left, right in zip(cold.logprobs, warm.logprobs, strict=True):
            assert left.chosen.logprob == pytest.approx(right.chosen.logprob, abs=1e-4)
            assert [entry.token_id for entry in left.top] == [entry.token_id for entry in right.top]
        scored = engine.score_blocking(call.prompt, [cold.token_ids])[0]
        assert scored.logprobs == pytest.approx([info.chosen.logprob for info in cold.logprobs], abs=1e-4)


@pytest.fixture(scope="module")
def smollm2() -> Iterator[Engine]:
    try:
        resolve("smollm2")
    except ModelNotFound as missing:
        pytest.skip(str(missing))
    with Engine("smollm2", num_pages=128, threads=1, checks_integrity=True) as engine:
        yield engine


def _ask(engine: Engine, text: str) -> tuple[int, ...]:
    return engine.render([Message(role=Role.USER, content=text)], open_assistant=True)


@pytest.mark.model
def test_the_default_model_chats_and_reuses_the_turn_before(smollm2: Engine) -> None:
    first = _ask(smollm2, "Name three primary colours.")
    reply = smollm2.complete(Call(prompt=first, sampling=SamplingParams(max_tokens=24)))[0]
    assert reply.text.strip()
    following = (*first, *reply.token_ids, *smollm2.encode("<|im_end|>\n", special=True), *first[-8:])
    second = smollm2.complete(Call(prompt=following, sampling=SamplingParams(max_tokens=4)))[0]
    assert second.finish.usage.cached_tokens >= len(first) + len(reply.token_ids) - 1


@pytest.mark.model
def test_the_default_model_fills_a_schema_and_chooses(smollm2: Engine) -> None:
    schema = JsonSchema(
        text='{"type":"object","properties":{"name":{"type":"string","maxLength":20},"age":{"type":"integer",'
        '"minimum":0,"maximum":120}},"required":["name","age"],"additionalProperties":false}'
    )
    prompt = _ask(smollm2, "Make up a person as JSON.")
    filled = smollm2.complete(Call(prompt=prompt, constraint=schema, sampling=SamplingParams(max_tokens=60)))[
        0
    ]
    assert filled.text.startswith('{"name":"') and filled.text.endswith("}")
    assert filled.finish.usage.forced_tokens > 0
    chosen = smollm2.complete(Call(prompt=prompt, constraint=Choice(options=("red", "green"))))[0]
    assert chosen.text in ("red", "green")
    assert chosen.finish.reason is StopReason.END_OF_TEXT


@pytest.mark.model
def test_the_default_model_gives_the_same_bits_alone_together_and_from_the_cache(smollm2: Engine) -> None:
    calls = [
        Call(
            prompt=_ask(smollm2, text),
            sampling=SamplingParams(max_tokens=10, logprobs=2, temperature=temperature, seed=5, top_p=0.9),
        )
        for text in ("Hi", "List three cities in France.", "x" * 40)
        for temperature in (0.0, 1.0)
    ]
    alone = []
    for call in calls:
        smollm2.flush_cache_blocking()
        alone.append(smollm2.complete(call)[0])
    smollm2.flush_cache_blocking()
    streams = [smollm2.submit(call) for call in calls]
    together = [stream.completions()[0] for stream in streams]
    warm = [smollm2.complete(call)[0] for call in calls]
    for one, other, third in zip(alone, together, warm, strict=True):
        assert one.token_ids == other.token_ids == third.token_ids
        assert one.logprobs == other.logprobs == third.logprobs
        assert third.finish.usage.cached_tokens == third.finish.usage.prompt_tokens - 1


def test_without_a_compiler_the_engine_computes_the_same_and_says_that_it_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tiny = TINY_MODELS["qwen3"]
    wide = replace(tiny, config=MappingProxyType({**tiny.config, "head_dim": 32}))  # as the kernels need
    path = str(write_gguf(wide, tmp_path / "qwen3-Q8_0.gguf", GGMLQuantizationType.Q8_0))
    calls = [Call(prompt=tuple(prompt), sampling=SamplingParams(max_tokens=12)) for prompt in PROMPTS]
    settings: EngineSettings = {"threads": 1, "num_pages": 64, "context_tokens": 128}

    def unavailable() -> None:
        raise NativeUnavailable("no C++ compiler was found")

    with Engine(path, **settings) as engine:
        expected = [engine.complete(call)[0].token_ids for call in calls]
    monkeypatch.setattr("sgrt.model.native_decoder.kernels", unavailable)
    with Engine(path, **settings) as engine:
        result = [engine.complete(call)[0].token_ids for call in calls]
    assert result == expected
    assert [record.message for record in caplog.records if "slowly" in record.message] == [
        "running qwen3-Q8_0 in plain torch, by the same definition but slowly: no C++ compiler was found"
    ]
