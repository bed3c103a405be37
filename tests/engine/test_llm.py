"""`LLM`: programs written for vLLM run by changing the import."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scripted_engine import END, saying, scripted_engine, tokenizer
from tiny_models import TINY_MODELS, write_folder

from sgrt.engine.scripted import continue_with
from sgrt.errors import ContextOverflow, InvalidRequest
from sgrt.llm import LLM, SamplingParams, StructuredOutputsParams
from sgrt.llm.keywords import check_others, compute_mode
from sgrt.llm.progress import Watch
from sgrt_frontend.call import Call
from sgrt_frontend.call import SamplingParams as CallParams
from sgrt_grammars.constraint import Choice, Regex


def echo_length(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    """Says the letter that stands for the prompt's length, twice."""
    return {tokenizer().encode(chr(96 + len(prompt)))[0] if len(output) < 2 else END: 20.0}


def quiet(llm: LLM, prompts: object, params: object = None) -> list[str]:
    outputs = llm.generate(prompts, params, use_tqdm=False)  # type: ignore[arg-type]  # any form
    return [output.outputs[0].text for output in outputs]


def test_a_batch_comes_back_in_order() -> None:
    with LLM.from_engine(scripted_engine(echo_length)) as llm:
        params = SamplingParams(temperature=0.0, max_tokens=5)
        assert quiet(llm, ["xx", "x", "xxx"], params) == ["bb", "aa", "cc"]


def test_prompts_may_be_text_tokens_or_mappings() -> None:
    with LLM.from_engine(scripted_engine(echo_length)) as llm:
        params = SamplingParams(temperature=0.0)
        assert quiet(llm, "xx", params) == ["bb"]
        assert quiet(llm, [7, 7, 7], params) == ["cc"]
        assert quiet(llm, [[7], {"prompt": "xx"}, {"prompt_token_ids": [1, 2, 3]}], params) == [
            "aa",
            "bb",
            "cc",
        ]
        wrongs: list[object] = [{"text": "x"}, [1, "x"], [[]]]
        for wrong in wrongs:
            with pytest.raises(InvalidRequest, match="prompt"):
                quiet(llm, wrong, params)


def test_outputs_have_the_fields_programs_read() -> None:
    with LLM.from_engine(scripted_engine(saying("hello, you"))) as llm:
        params = SamplingParams(temperature=0.0, stop=",", logprobs=2, max_tokens=40)
        (result,) = llm.generate(["<|im_start|>user"], params, use_tqdm=False)
        assert result.prompt == "<|im_start|>user"
        assert result.prompt_token_ids[0] == tokenizer().token_id("<|im_start|>")
        output = result.outputs[0]
        assert (output.text, output.finish_reason, output.stop_reason) == ("hello", "stop", ",")
        assert output.logprobs is not None and len(output.logprobs) == len(output.token_ids)
        best = output.logprobs[0][output.token_ids[0]]
        assert best.rank == 1 and best.decoded_token == tokenizer().decode(output.token_ids[:1])
        (cut,) = llm.generate(["x"], SamplingParams(temperature=0.0, max_tokens=2), use_tqdm=False)
        assert (cut.outputs[0].finish_reason, len(cut.outputs[0].token_ids)) == ("length", 2)


def test_defaults_are_vllms() -> None:
    params = SamplingParams()
    assert (params.temperature, params.max_tokens, params.top_k, params.n) == (1.0, 16, 0, 1)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("best_of", "write n="),
        ("guided_decoding", "write structured_outputs="),
        ("max_token", "did you mean max_tokens"),
        ("flux", "leave it out"),
    ],
)
def test_parameters_without_a_counterpart_are_refused_by_name(name: str, advice: str) -> None:
    given: dict[str, Any] = {name: 1}
    with pytest.raises(InvalidRequest, match=f"^{name}: .*{advice}") as raised:
        SamplingParams(**given)
    assert raised.value.param == name


def test_parameters_can_be_copied() -> None:
    params = SamplingParams(max_tokens=3)
    assert pickle.loads(pickle.dumps(params)) == copy.deepcopy(params) == replace(params) == params


def test_parameters_may_differ_by_prompt_and_n_gives_several_outputs() -> None:
    with LLM.from_engine(scripted_engine(saying("hello"))) as llm:
        greedy = SamplingParams(temperature=0.0, max_tokens=1)
        several = SamplingParams(n=3, seed=1, max_tokens=4)
        one, three = llm.generate(["a", "b"], [greedy, several], use_tqdm=False)
        assert (len(one.outputs), [output.index for output in three.outputs]) == (1, [0, 1, 2])
        with pytest.raises(InvalidRequest, match="1 given for 2 prompts"):
            llm.generate(["a", "b"], [greedy], use_tqdm=False)


def test_structured_outputs_shape_the_text() -> None:
    with LLM.from_engine(scripted_engine(saying("maybe"))) as llm:
        for params in (
            SamplingParams(structured_outputs=StructuredOutputsParams(choice=["yes", "no"])),
            SamplingParams(constraint=Choice(options=("yes", "no"))),
            SamplingParams(structured_outputs=StructuredOutputsParams(regex="yes|no")),
            SamplingParams(structured_outputs=StructuredOutputsParams(json={"enum": ["yes"]})),
        ):
            assert quiet(llm, "q", params)[0] in ("yes", "no", '"yes"')
    with pytest.raises(InvalidRequest, match="exactly one"):
        StructuredOutputsParams(regex="a", choice=["b"])


def test_max_tokens_end_where_the_context_ends() -> None:
    engine = scripted_engine(lambda prompt, output: {65: 9.0}, settings={"context_tokens": 30})
    with LLM.from_engine(engine) as llm:
        params = SamplingParams(temperature=0.0, max_tokens=2048)
        (result,) = llm.generate([[5] * 20], params, use_tqdm=False)
        assert (len(result.outputs[0].token_ids), result.outputs[0].finish_reason) == (10, "length")
        with pytest.raises(ContextOverflow, match="context holds 30 tokens"):
            llm.generate([[5] * 30], params, use_tqdm=False)


def test_max_tokens_end_where_a_small_pool_ends() -> None:
    with LLM.from_engine(scripted_engine(lambda prompt, output: {65: 9.0}, num_pages=2)) as llm:
        for asked in (None, 1000):
            params = SamplingParams(temperature=0.0, max_tokens=asked)
            (output,) = llm.generate([[66] * 40], params, use_tqdm=False)
            assert len(output.outputs[0].token_ids) == 25
            assert output.outputs[0].finish_reason == "length"


def test_chats_are_rendered_with_the_models_template() -> None:
    with LLM.from_engine(scripted_engine(saying("hello"))) as llm:
        chat = [{"role": "user", "content": "hi"}]
        params = SamplingParams(temperature=0.0)
        (one,) = llm.chat(chat, params, use_tqdm=False)
        assert one.outputs[0].text == "hello"
        assert one.prompt_token_ids[0] == tokenizer().token_id("<|im_start|>")
        assert len(llm.chat([chat, chat], params, use_tqdm=False)) == 2


def test_a_progress_bar_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    with LLM.from_engine(scripted_engine(saying("hello"))) as llm:
        llm.generate(["a", "b"], SamplingParams(temperature=0.0))
    assert capsys.readouterr().out == ""  # which belongs to the program's own output


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"tensor_parallel_size": 2}, "tensor_parallel_size: only 1 is supported"),
        ({"speculative_mode": "x"}, "speculative_mode: LLM does not know this keyword"),
        ({"dtype": "float8"}, "dtype: must be one of auto, float, float32"),
        ({"dtype": "half"}, "dtype: 'half' cannot be had on cpu; \"auto\" computes"),
        ({"dtype": "bfloat16"}, "dtype: 'bfloat16' cannot be had on cpu"),
        ({"dtype": "float16", "device": "cuda"}, "dtype: 'float16' cannot be had on cuda"),
        ({"max_num_seqs": 0}, "^max_num_seqs: must be at least 1"),
        ({"max_model_len": 1}, "^max_model_len: must be at least 2"),
        ({"block_size": 0}, "^block_size: must lie in"),
        ({"gpu_memory_utilization": 0.0}, "^gpu_memory_utilization: must lie in"),
        (
            {"max_num_batched_tokens": 0},
            "^max_num_batched_tokens: must be at least max_num_seqs . block_size = 96",
        ),
        ({"task": "embed"}, "task: only 'auto' or 'generate'"),
        ({"revision": "main"}, "revision: only None is supported"),
        (
            {"max_model_length": 5},
            "max_model_length: LLM does not know this keyword .did you mean max_model_len",
        ),
    ],
)
def test_unsupported_keywords_are_refused_by_name(keywords: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        LLM(model="nowhere", **keywords)  # type: ignore[arg-type]  # wrong on purpose


def test_arguments_that_ask_for_nothing_are_taken() -> None:
    check_others(
        {
            "revision": None,
            "tokenizer_revision": None,
            "task": "generate",
            "runner": "auto",
            "download_dir": "somewhere",
            "disable_log_requests": True,
            "max_logprobs": 20,
            "quantization": None,
            "rope_scaling": None,
            "hf_overrides": {},
            "cpu_offload_gb": 0,
            "tensor_parallel_size": 1,
        }
    )
    assert (compute_mode("auto", "cpu"), compute_mode("float", "cpu")) == ("auto", "float32")
    assert compute_mode("bfloat16", "cuda:0") == "auto"


def test_a_prompt_that_is_too_long_is_told_with_the_keywords_of_llm() -> None:
    engine = scripted_engine(saying("x"), settings={"context_tokens": 512})
    with LLM.from_engine(engine) as llm:
        message = "prompt 1 has 601 tokens and max_tokens asks for 16, but the context holds 512 tokens.*raise max_model_len"
        with pytest.raises(ContextOverflow, match=message):
            llm.generate([[5], [5] * 601], use_tqdm=False)
    own = r"the context holds 64 tokens: shorten the prompt$"  # the model's: nothing raises it
    for engine, message in (
        (scripted_engine(saying("x"), context_tokens=64), own),
        (scripted_engine(saying("x"), num_pages=2), r"holds 64 tokens.*raise gpu_memory_utilization"),
    ):
        with LLM.from_engine(engine) as llm, pytest.raises(ContextOverflow, match=message):
            llm.generate([[5] * 65], SamplingParams(max_tokens=None), use_tqdm=False)


def test_the_tokens_of_a_prompt_may_be_scored(tmp_path: Path) -> None:
    folder = write_folder(TINY_MODELS["llama"], tmp_path / "tiny")
    with LLM(model=str(folder), max_model_len=64, max_num_seqs=4, dtype="float32") as llm:
        params = SamplingParams(temperature=0.0, max_tokens=1, prompt_logprobs=2)
        plain, short = SamplingParams(max_tokens=1), SamplingParams(max_tokens=1, prompt_logprobs=0)
        prompt = llm.get_tokenizer().encode("one two")
        scored, none, one = llm.generate([prompt, prompt, [7]], [params, plain, short], use_tqdm=False)
        assert none.prompt_logprobs is None
        assert one.prompt_logprobs == [None]
        assert scored.prompt_logprobs is not None and len(scored.prompt_logprobs) == len(prompt)
        assert scored.prompt_logprobs[0] is None
        (expected,) = llm.engine.score_blocking(prompt[:1], [prompt[1:]])
        for token, logprob, place in zip(
            prompt[1:], expected.logprobs, scored.prompt_logprobs[1:], strict=True
        ):
            assert place is not None and 2 <= len(place) <= 3
            assert place[token].logprob == pytest.approx(logprob, abs=1e-5)
            assert {entry.rank for entry in place.values()} >= {1, 2}
    with pytest.raises(InvalidRequest, match="prompt_logprobs: must be at least 0"):
        SamplingParams(prompt_logprobs=-1)


def test_bad_words_are_never_written_and_stops_go_with_them() -> None:
    with LLM.from_engine(scripted_engine(saying("the horse galloped and galloped"))) as llm:
        params = SamplingParams(bad_words=["galloped"], temperature=0.0, max_tokens=28)
        (result,) = llm.generate(["a"], params, use_tqdm=False)
        assert "galloped" not in result.outputs[0].text
        assert result.outputs[0].text.startswith("the horse gallope")
        (stopped,) = llm.generate(["a"], replace(params, stop=["hor"]), use_tqdm=False)
        assert (stopped.outputs[0].text, stopped.outputs[0].stop_reason) == ("the ", "hor")
        (cut,) = llm.generate(["a"], replace(params, max_tokens=2), use_tqdm=False)
        assert cut.outputs[0].finish_reason == "length"
    refused: tuple[dict[str, Any], ...] = (
        {"bad_words": [""]},
        {"bad_words": ["a"], "constraint": Regex(pattern="a")},
        {"bad_words": "ab"},
    )
    for wrong in refused:
        with pytest.raises(InvalidRequest, match="bad_words"):
            SamplingParams(**wrong)


def test_special_tokens_are_shown_when_they_are_not_skipped() -> None:
    (mark,) = tokenizer().encode("<|im_start|>", special=True)
    said = continue_with((mark, *tokenizer().encode("hello")), end_token_id=END)
    with LLM.from_engine(scripted_engine(said)) as llm:
        texts = [
            llm.generate(["a"], SamplingParams(temperature=0.0, skip_special_tokens=skips), use_tqdm=False)[0]
            for skips in (True, False)
        ]
        assert texts[0].outputs[0].text == "hello"
        assert texts[1].outputs[0].text.startswith("<|im_start|>hello")


def test_the_tokenizer_has_the_methods_that_scripts_use() -> None:
    with LLM.from_engine(scripted_engine(saying("hello"))) as llm:
        tokens = llm.get_tokenizer()
        ids = tokens.encode("hello")
        assert (tokens.decode(ids), tokens.decode(ids[0])) == ("hello", tokens.decode(ids[:1]))
        chat = [{"role": "user", "content": "hi"}]
        rendered = tokens.apply_chat_template(chat, add_generation_prompt=True)
        text = tokens.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        assert isinstance(text, str) and tokens.encode(text) == rendered
        (answered,) = llm.chat(chat, SamplingParams(max_tokens=1), use_tqdm=False)
        assert answered.prompt_token_ids == rendered
        assert tokens.eos_token_id == END
        assert len(tokens) == tokens.vocab_size == tokenizer().size
        assert tokens.decode([END]) != tokens.decode([END], skip_special_tokens=True) == ""


def test_progress_counts_prompts_as_they_end_and_tokens_as_they_come() -> None:
    def script(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        return {END if len(prompt) == 1 else 65: 20.0}

    engine = scripted_engine(script, settings={"checks_integrity": False})
    with engine:
        calls = [Call(prompt=(5,) * length, sampling=CallParams(max_tokens=4000)) for length in (2, 1)]
        streams = [engine.submit(call) for call in calls]
        watch = Watch(streams, engine.counters)
        streams[1].completions()  # the second ends at once, the first goes on
        assert watch.look().prompts == 1
        for count, _ in enumerate(streams[0]):
            if count == 5:
                assert watch.look().tokens >= 5
                streams[0].cancel()
        assert watch.look().prompts == 2


def test_a_folder_of_weights_runs_from_the_constructor(tmp_path: Path) -> None:
    folder = write_folder(TINY_MODELS["llama"], tmp_path / "tiny")
    with LLM(
        model=str(folder),
        enable_prefix_caching=True,
        max_model_len=256,
        max_num_seqs=4,
        dtype="float32",
        trust_remote_code=True,
    ) as llm:
        params = SamplingParams(temperature=0.7, top_p=0.95, max_tokens=8, repetition_penalty=1.1, seed=1)
        first = llm.generate(["one", "two", "three"], params, use_tqdm=False)
        second = llm.generate(["one", "two", "three"], params, use_tqdm=False)
        assert [output.outputs[0].token_ids for output in first] == [
            output.outputs[0].token_ids for output in second
        ]
        assert second[2].num_cached_tokens == len(second[2].prompt_token_ids) - 1
