"""What the metadata of a GGUF file says about a model, where files differ in how they say it."""

from __future__ import annotations

import math
from pathlib import Path

import gguf
import pytest

from sgrt.checkpoint.gguf_config import read_config
from sgrt.checkpoint.gguf_file import GgufFile
from sgrt.checkpoint.gguf_tokenizer import read_tokenizer_data
from sgrt.errors import CorruptModel, ModelError, UnsupportedModel
from sgrt_kernels.rope_scaling import YarnScaling

Entry = int | float | str | bool | list[bool] | list[str] | list[int] | list[float]

NUMBERS: dict[str, Entry] = {
    "block_count": 7,
    "context_length": 64,
    "embedding_length": 32,
    "feed_forward_length": 64,
    "attention.head_count": 2,
    "attention.layer_norm_rms_epsilon": 1e-6,
    "vocab_size": 100,
}


def written(
    path: Path, architecture: str, numbers: dict[str, Entry], others: dict[str, Entry] | None = None
) -> GgufFile:
    writer = gguf.GGUFWriter(path, architecture)
    keyed = {f"{architecture}.{key}": value for key, value in numbers.items()} | (others or {})
    for key, value in keyed.items():
        match value:
            case bool():
                writer.add_bool(key, value)
            case int():
                writer.add_uint32(key, value)
            case float():
                writer.add_float32(key, value)
            case str():
                writer.add_string(key, value)
            case list():
                writer.add_array(key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return GgufFile(path)


GEMMA: dict[str, Entry] = NUMBERS | {"attention.sliding_window": 8}


@pytest.mark.parametrize(
    ("more", "windows"),
    [
        ({}, [8, 8, 8, 8, 8, None, 8]),
        ({"attention.sliding_window_pattern": 2}, [8, None, 8, None, 8, None, 8]),
        ({"attention.sliding_window_pattern": [True] * 3 + [False] * 4}, [8, 8, 8, None, None, None, None]),
    ],
)
def test_the_sliding_layers_of_gemma_are_said_in_three_ways(
    more: dict[str, Entry], windows: list[int | None], tmp_path: Path
) -> None:
    config = read_config(written(tmp_path / "a.gguf", "gemma3", GEMMA | more))
    assert [layer.window for layer in config.layers] == windows
    assert {layer.rope.theta for layer in config.layers if layer.window} == {10_000.0}
    assert {layer.rope.theta for layer in config.layers if not layer.window} == {1_000_000.0}


def test_the_largest_gemma_scales_queries_by_its_width_per_head(tmp_path: Path) -> None:
    numbers = GEMMA | {"block_count": 62, "attention.key_length": 4, "attention.value_length": 4}
    assert read_config(written(tmp_path / "a.gguf", "gemma3", numbers)).query_scale == pytest.approx(
        1 / math.sqrt(16)
    )


def test_the_gain_of_a_stretched_context_comes_on_top_of_the_usual_one(tmp_path: Path) -> None:
    scaling: dict[str, Entry] = {
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 16,
        "rope.scaling.attn_factor": 0.5,
    }
    found = read_config(written(tmp_path / "a.gguf", "llama", NUMBERS | scaling)).layers[0].rope.scaling
    assert isinstance(found, YarnScaling)
    assert found.amplitude == pytest.approx(0.5 * (0.1 * math.log(4) + 1))


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"rope.dimension_count": 8}, UnsupportedModel, "only 8 of 16 channels are rotated"),
        ({"attention.value_length": 8}, UnsupportedModel, "values have 8 channels, keys 16"),
        ({"expert_count": 4}, UnsupportedModel, "a mixture of 4 experts"),
        (
            {"rope.scaling.type": "longrope"},
            UnsupportedModel,
            "'longrope' is unknown; known: none, linear, yarn",
        ),
        ({"attention.head_count": 0}, CorruptModel, "heads is 0"),
        ({"block_count": "seven"}, CorruptModel, "'llama.block_count' is 'seven', expected int"),
    ],
)
def test_a_model_that_cannot_be_kept_is_refused(
    more: dict[str, Entry], error: type[ModelError], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        read_config(written(tmp_path / "a.gguf", "llama", NUMBERS | more))


def test_a_part_of_a_split_file_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path / "a.gguf", "llama", NUMBERS, {"split.count": 3})
    with pytest.raises(UnsupportedModel, match=r"one of 3 parts.*llama-gguf-split --merge"):
        read_config(file)


TOKENS: dict[str, Entry] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ["a", "<s>", "</s>"],
    "tokenizer.ggml.token_type": [1, 3, 3],
    "tokenizer.ggml.merges": [" "],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


@pytest.mark.parametrize(
    ("more", "begin"),
    [
        ({"tokenizer.ggml.pre": "gpt-2"}, ()),
        ({"tokenizer.ggml.pre": "llama-bpe"}, (1,)),
        ({"tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.add_bos_token": False}, ()),
        ({"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.0, 0.0, 0.0]}, (1,)),
    ],
)
def test_whether_prompts_begin_with_a_token_depends_on_the_kind_where_the_file_does_not_say(
    more: dict[str, Entry], begin: tuple[int, ...], tmp_path: Path
) -> None:
    file = written(tmp_path / "a.gguf", "llama", NUMBERS, TOKENS | more)
    assert read_tokenizer_data(file, 3).begin_token_ids == begin


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"tokenizer.ggml.model": "rwkv"}, UnsupportedModel, "'rwkv' is unknown; known: gpt2 .* llama"),
        ({"tokenizer.ggml.model": "llama"}, CorruptModel, "scores' has 0 entries for 3 tokens"),
        ({"tokenizer.ggml.token_type": [1]}, CorruptModel, "token_type' has 1 entries for 3 tokens"),
        ({"tokenizer.ggml.eos_token_id": 3}, CorruptModel, "eos_token_id' is 3, outside the 3 tokens"),
        ({"tokenizer.ggml.tokens": "a"}, CorruptModel, "expected a list"),
    ],
)
def test_a_tokenizer_that_cannot_be_kept_is_refused(
    more: dict[str, Entry], error: type[ModelError], message: str, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.gguf", "llama", NUMBERS, TOKENS | more)
    with pytest.raises(error, match=message):
        read_tokenizer_data(file, 3)
    with pytest.raises(CorruptModel, match="3 tokens, the model's embedding 2 rows"):
        read_tokenizer_data(written(tmp_path / "b.gguf", "llama", NUMBERS, TOKENS), 2)
