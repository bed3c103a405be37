"""Hugging Face folders: shards, older and newer spellings of a configuration, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_models import TINY_MODELS, VOCABULARY, write_folder

from sgrt.checkpoint.folder_config import read_config
from sgrt.checkpoint.json_file import JsonFile
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.errors import CorruptModel, ModelError, ModelNotFound, UnsupportedModel
from sgrt.model.config import Rope
from sgrt.model.registry import load_model
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_kernels.rope_scaling import LinearScaling


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_folder(TINY_MODELS["llama"], tmp_path / "llama")


def change(folder: Path, file: str, **values: object) -> None:
    content = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
    (folder / file).write_text(json.dumps(content | values))


def config_of(values: Mapping[str, object]) -> JsonFile:
    return JsonFile(Path("config.json"), values)


def test_shards_are_read_as_one(folder: Path) -> None:
    whole = load_file(folder / "model.safetensors")
    expected = open_checkpoint(folder).tensor("layers.1.up.weight")
    names = sorted(whole)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: whole[name] for name in part}, folder / file)
    index = {name: file for file, part in parts.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    (folder / "model.safetensors").unlink()
    torch.testing.assert_close(open_checkpoint(folder).tensor("layers.1.up.weight"), expected)
    (folder / "b.safetensors").unlink()
    with pytest.raises(CorruptModel, match=r"b.safetensors: the model's index names this file"):
        open_checkpoint(folder)


@pytest.mark.parametrize("keep", [4, 300, -1000])
def test_a_truncated_weight_file_is_refused_with_both_sizes(keep: int, folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptModel, match=r"truncated.* it has [0-9,]+ bytes.*[0-9,]+"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (
            {"architectures": ["MambaForCausalLM"]},
            UnsupportedModel,
            "MambaForCausalLM is unknown; known: Llama.*Gemma3",
        ),
        ({"architectures": None}, UnsupportedModel, "missing is unknown"),
        ({"quantization_config": {"quant_method": "awq"}}, UnsupportedModel, "'awq' is unknown; known are"),
        ({"hidden_act": "gelu"}, UnsupportedModel, "'gelu' is unknown; known: silu"),
        (
            {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}},
            UnsupportedModel,
            "'dynamic'.*known: default, linear",
        ),
        ({"partial_rotary_factor": 0.5}, UnsupportedModel, "partial_rotary_factor is 0.5"),
        ({"mlp_bias": True}, UnsupportedModel, "mlp_bias"),
        ({"hidden_size": None}, CorruptModel, "'hidden_size' is missing"),
        (
            {"num_hidden_layers": "three"},
            CorruptModel,
            "'num_hidden_layers' is 'three', expected a whole number",
        ),
        ({"num_key_value_heads": 3}, CorruptModel, "4 heads are not a multiple of 3 kv_heads"),
        ({"head_dim": 33}, CorruptModel, "head_dim 33 is odd"),
    ],
)
def test_a_configuration_that_cannot_be_kept_is_refused(
    values: dict[str, object], error: type[ModelError], message: str, folder: Path
) -> None:
    change(folder, "config.json", **values)
    with pytest.raises(error, match=message):
        open_checkpoint(folder)


def test_older_and_newer_spellings_of_rotary_positions_mean_the_same() -> None:
    older = {
        **TINY_MODELS["gemma3-scaled"].config,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "rope_scaling": {"type": "linear", "factor": 8.0},
    }
    newer = {key: value for key, value in older.items() if not key.startswith("rope")} | {
        "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
        }
    }
    assert read_config(config_of(older)) == read_config(config_of(newer))
    layers = read_config(config_of(older)).layers
    assert layers[5].rope == Rope(theta=1e6, scaling=LinearScaling(factor=8.0))
    assert (layers[0].rope, layers[0].window) == (Rope(theta=1e4), 8)
    plain = {**TINY_MODELS["llama"].config, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    assert read_config(config_of(plain)).layers[0].rope == Rope(theta=5e5)


def test_the_sliding_layers_of_gemma_are_every_layer_but_the_sixth_where_the_file_does_not_say() -> None:
    values = {key: value for key, value in TINY_MODELS["gemma3"].config.items() if key != "layer_types"}
    windows = [layer.window for layer in read_config(config_of(values)).layers]
    assert windows == [8, 8, 8, 8, 8, None, 8]


def test_what_a_published_configuration_leaves_out_is_its_class_default() -> None:
    sparse: dict[str, object] = {
        "hidden_size": 2560,
        "intermediate_size": 10240,
        "num_hidden_layers": 6,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
        "sliding_window": 1024,
    }
    nested = {"architectures": ["Gemma3ForConditionalGeneration"], "text_config": sparse}
    config = read_config(config_of(nested))
    assert (config.heads, config.kv_heads, config.head_dim, config.vocabulary) == (8, 4, 256, 262_208)
    assert config.layers[0].rope == Rope(theta=1e4)
    assert config.layers[5].rope == Rope(theta=1e6, scaling=LinearScaling(factor=8.0))
    mistral = {key: value for key, value in TINY_MODELS["mistral"].config.items() if key != "sliding_window"}
    assert read_config(config_of(mistral)).layers[0].window == 4096
    assert read_config(config_of(mistral | {"sliding_window": None})).layers[0].window is None


def test_the_text_part_of_a_model_with_pictures_is_read(tmp_path: Path) -> None:
    folder = write_folder(TINY_MODELS["gemma3"], tmp_path / "gemma")
    expected = open_checkpoint(folder)
    text = json.loads((folder / "config.json").read_text())
    nested = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "text_config": text,
        "eos_token_id": [1, 106],
    }
    (folder / "config.json").write_text(json.dumps(nested))
    weights = load_file(folder / "model.safetensors")
    renamed = {name.replace("model.", "language_model.model.", 1): tensor for name, tensor in weights.items()}
    save_file(renamed | {"vision_tower.x": torch.zeros(2)}, folder / "model.safetensors")
    checkpoint = open_checkpoint(folder)
    assert checkpoint.config == expected.config
    assert checkpoint.names() == expected.names()


def test_a_tensor_of_the_wrong_shape_or_that_is_missing_is_named(folder: Path) -> None:
    cpu = torch.device("cpu")
    change(folder, "config.json", intermediate_size=64)
    with pytest.raises(CorruptModel, match=r"'layers.0.gate.weight' has shape \[96, 64\].*\[64, 64\]"):
        load_model(open_checkpoint(folder), compute_dtype=torch.float32, device=cpu)
    change(folder, "config.json", intermediate_size=96, num_hidden_layers=4)
    with pytest.raises(CorruptModel, match=r"no tensor for 'layers.3.attention_norm.weight'"):
        load_model(open_checkpoint(folder), compute_dtype=torch.float32, device=cpu)


def test_files_that_every_folder_has_are_asked_for(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UnsupportedModel, match=r"no tokenizer.json"):
        _ = open_checkpoint(folder).tokenizer_data
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelNotFound, match=r"neither model.safetensors nor"):
        open_checkpoint(folder)


def test_all_end_tokens_are_found(folder: Path) -> None:
    assert set(open_checkpoint(folder).tokenizer_data.end_token_ids) == {264, 266}
    change(folder, "generation_config.json", eos_token_id=[266, 5])
    assert set(open_checkpoint(folder).tokenizer_data.end_token_ids) == {264, 266, 5}


def test_the_begin_token_comes_from_the_post_processor(folder: Path) -> None:
    assert open_checkpoint(folder).tokenizer_data.begin_token_ids == ()
    step = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|im_start|>"}}, {"Sequence": {"id": "A"}}],
    }
    change(folder, "tokenizer.json", post_processor={"type": "Sequence", "processors": [step]})
    assert open_checkpoint(folder).tokenizer_data.begin_token_ids == (265,)


def test_a_template_in_a_file_of_its_own_goes_first(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("own")
    assert open_checkpoint(folder).tokenizer_data.chat_template == "own"


def test_a_folder_has_no_packed_weights(folder: Path) -> None:
    with pytest.raises(UnsupportedModel, match="GGUF"):
        open_checkpoint(folder).packed("embedding.weight")


def test_what_is_no_json_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    with pytest.raises(CorruptModel, match=r"config.json: not JSON"):
        open_checkpoint(folder)


def test_added_tokens_behind_the_embedding_are_left_out(folder: Path) -> None:
    definition = json.loads((folder / "tokenizer.json").read_text())
    beyond = {**definition["added_tokens"][0], "id": VOCABULARY, "content": "<image>"}
    change(folder, "tokenizer.json", added_tokens=[*definition["added_tokens"], beyond])
    tokenizer = Tokenizer(open_checkpoint(folder).tokenizer_data)
    ids = tokenizer.encode("<|im_start|><image>", special=True)
    assert ids[0] == 265
    assert all(token < 256 + len(definition["added_tokens"]) + 8 for token in ids)
    assert tokenizer.decode(ids, skip_special=False) == "<|im_start|><image>"
    assert len(tokenizer.vocabulary().tokens) <= VOCABULARY


def test_a_tokenizer_wider_than_the_embedding_is_refused(folder: Path) -> None:
    definition = json.loads((folder / "tokenizer.json").read_text())
    model = definition["model"]
    wide = {**model, "vocab": {**model["vocab"], "zebra": VOCABULARY}}
    change(folder, "tokenizer.json", model=wide)
    with pytest.raises(CorruptModel, match=r"1 tokens, such as 'zebra', beyond the 288 rows"):
        _ = open_checkpoint(folder).tokenizer_data
