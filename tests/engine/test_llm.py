"""`LLM`: programs written for vLLM run by changing the import."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from scripted_engine import END, saying, scripted_engine, tokenizer
from tiny_models import TINY_MODELS, write_folder

from sgrt.errors import ContextOverflow, InvalidRequest
from sgrt.llm import LLM, SamplingParams, StructuredOutputsParams
from sgrt_grammars.constraint import Choice


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
            (output,) = llm.generate([[66] * 40], SamplingParams(max_tokens=asked), use_tqdm=False)
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
    assert "hello" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"tensor_parallel_size": 2}, "tensor_parallel_size: only 1 is supported"),
        ({"speculative_model": "x"}, "speculative_model: LLM does not know this keyword"),
        ({"dtype": "float8"}, "dtype: must be one of auto, float32"),
        ({"max_num_seqs": 0}, "max_running"),
    ],
)
def test_unsupported_keywords_are_refused_by_name(keywords: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        LLM(model="nowhere", **keywords)  # type: ignore[arg-type]  # wrong on purpose


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
