"""Tiny random models of every family, written the way real ones are published: as folders and as GGUF files.

Each has a byte-level tokenizer with a few merges, chat marks and a chat template, so that a whole engine can run on it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import gguf
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor

VOCABULARY = 288  # 256 bytes, merges, marks, and a few rows without a token
MARKS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # tokens 264, 265, 266
MERGES = (("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("e", "r"), ("Ġ", "a"), ("o", "n"), ("Ġ", "Ġ"))
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A model to write: its config.json, and how large its random weights are."""

    config: Mapping[str, object]
    seed: int = 0
    spread: float = 0.3
    dtype: torch.dtype = torch.float32


def _model(architecture: str, **values: object) -> TinyModel:
    config: dict[str, object] = {
        "architectures": [architecture],
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": 265,
        "eos_token_id": 266,
        "torch_dtype": "float32",
    }
    return TinyModel(config=MappingProxyType(config | values))


def _gemma3(**values: object) -> TinyModel:
    return _model(
        "Gemma3ForCausalLM",
        model_type="gemma3_text",
        num_hidden_layers=7,
        head_dim=32,
        num_key_value_heads=1,
        rope_theta=1000000.0,
        rope_local_base_freq=10000.0,
        sliding_window=8,
        layer_types=["sliding_attention"] * 5 + ["full_attention", "sliding_attention"],
        hidden_activation="gelu_pytorch_tanh",
        tie_word_embeddings=True,
        **values,
    )


TINY_MODELS: Mapping[str, TinyModel] = MappingProxyType(
    {
        "llama": _model("LlamaForCausalLM", model_type="llama"),
        "llama-tied-biased": _model(
            "LlamaForCausalLM", model_type="llama", tie_word_embeddings=True, attention_bias=True
        ),
        "llama-llama3-rope": _model(
            "LlamaForCausalLM",
            model_type="llama",
            rope_scaling={
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        ),
        "llama-linear-rope": _model(
            "LlamaForCausalLM", model_type="llama", rope_scaling={"rope_type": "linear", "factor": 4.0}
        ),
        "llama-yarn-rope": _model(
            "LlamaForCausalLM",
            model_type="llama",
            rope_scaling={"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
        ),
        "mistral": _model("MistralForCausalLM", model_type="mistral", sliding_window=9, head_dim=32),
        "qwen2": _model("Qwen2ForCausalLM", model_type="qwen2"),
        "qwen2-window": _model(
            "Qwen2ForCausalLM",
            model_type="qwen2",
            use_sliding_window=True,
            sliding_window=7,
            max_window_layers=1,
        ),
        "qwen3": _model("Qwen3ForCausalLM", model_type="qwen3", head_dim=32, tie_word_embeddings=True),
        "gemma3": _gemma3(query_pre_attn_scalar=32),
        "gemma3-scaled": _gemma3(
            query_pre_attn_scalar=24, rope_scaling={"rope_type": "linear", "factor": 8.0}
        ),
    }
)


def random_weights(model: TinyModel) -> dict[str, Tensor]:
    """Weights under Hugging Face's names."""
    generator = torch.Generator().manual_seed(model.seed)
    return {
        name: (
            torch.randn(shape, generator=generator) * model.spread + (1.0 if _is_scale(model, name) else 0.0)
        ).to(model.dtype)
        for name, shape in _shapes(model.config).items()
    }


def write_folder(model: TinyModel, folder: Path) -> Path:
    """A Hugging Face folder with config.json, model.safetensors and the tokenizer's files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(model.config)))
    save_file(random_weights(model), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "tokenizer.json").write_text(tiny_tokenizer().to_str())
    named = {"bos_token": MARKS[1], "eos_token": MARKS[2], "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(named))
    return folder


def write_gguf(
    model: TinyModel, path: Path, type_: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32
) -> Path:
    """A GGUF file of the same weights; matrices are stored as `type_` (one that the `gguf` package can quantize to)."""
    architecture = str(model.config["architectures"][0])  # type: ignore[index]  # a list by construction
    name = _GGUF_ARCHITECTURES[architecture]
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, name)
    _write_numbers(writer, model, name)
    _write_tokenizer(writer)
    for tensor_name, tensor in random_weights(model).items():
        values = _as_gguf_stores(model, name, tensor_name, tensor.float().numpy())
        kind = type_ if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(_gguf_name(tensor_name, name), gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny_tokenizer() -> Tokenizer:
    """Bytes and a few merges in GPT-2's manner, and chat marks."""
    tokens = _text_tokens()
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, list(MERGES)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    return tokenizer


_GGUF_ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Gemma3ForCausalLM": "gemma3",
}
_GGUF_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def _number(config: Mapping[str, object], key: str, default: int = 0) -> int:
    value = config.get(key, default)
    assert isinstance(value, int)
    return value


def _head_dim(config: Mapping[str, object]) -> int:
    return _number(
        config, "head_dim", _number(config, "hidden_size") // _number(config, "num_attention_heads")
    )


def _shapes(config: Mapping[str, object]) -> dict[str, tuple[int, ...]]:
    hidden, inner, head = (
        _number(config, "hidden_size"),
        _number(config, "intermediate_size"),
        _head_dim(config),
    )
    query, kv = head * _number(config, "num_attention_heads"), head * _number(config, "num_key_value_heads")
    table = (_number(config, "vocab_size"), hidden)
    kind = str(config["model_type"])
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": table, "model.norm.weight": (hidden,)}
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = table
    for layer in range(_number(config, "num_hidden_layers")):
        parts = {
            "self_attn.q_proj.weight": (query, hidden),
            "self_attn.k_proj.weight": (kv, hidden),
            "self_attn.v_proj.weight": (kv, hidden),
            "self_attn.o_proj.weight": (hidden, query),
            "mlp.gate_proj.weight": (inner, hidden),
            "mlp.up_proj.weight": (inner, hidden),
            "mlp.down_proj.weight": (hidden, inner),
            "input_layernorm.weight": (hidden,),
            "post_attention_layernorm.weight": (hidden,),
        }
        if kind == "qwen2" or config.get("attention_bias"):
            parts |= {
                f"self_attn.{part}_proj.bias": (width,)
                for part, width in zip("qkv", (query, kv, kv), strict=True)
            }
        if config.get("attention_bias"):
            parts["self_attn.o_proj.bias"] = (hidden,)
        if kind in ("qwen3", "gemma3_text"):
            parts |= {"self_attn.q_norm.weight": (head,), "self_attn.k_norm.weight": (head,)}
        if kind == "gemma3_text":
            parts |= {
                "pre_feedforward_layernorm.weight": (hidden,),
                "post_feedforward_layernorm.weight": (hidden,),
            }
        shapes |= {f"model.layers.{layer}.{part}": shape for part, shape in parts.items()}
    return shapes


def _is_scale(model: TinyModel, name: str) -> bool:
    return (
        name.endswith("norm.weight") and model.config["model_type"] != "gemma3_text"
    )  # Gemma's are stored less one


def _text_tokens() -> list[str]:
    return [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(merge) for merge in MERGES)]


def _write_numbers(writer: gguf.GGUFWriter, model: TinyModel, name: str) -> None:
    config = model.config
    writer.add_block_count(_number(config, "num_hidden_layers"))
    writer.add_context_length(_number(config, "max_position_embeddings"))
    writer.add_embedding_length(_number(config, "hidden_size"))
    writer.add_feed_forward_length(_number(config, "intermediate_size"))
    writer.add_head_count(_number(config, "num_attention_heads"))
    writer.add_head_count_kv(_number(config, "num_key_value_heads"))
    writer.add_key_length(_head_dim(config))
    writer.add_value_length(_head_dim(config))
    writer.add_layer_norm_rms_eps(float(str(config["rms_norm_eps"])))
    writer.add_rope_freq_base(float(str(config["rope_theta"])))
    window = config.get("sliding_window")
    if isinstance(window, int) and name != "qwen2":
        writer.add_sliding_window(window)
    scaling = config.get("rope_scaling")
    if not isinstance(scaling, dict):
        return
    if scaling["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", _llama3_factors(config, scaling))
        return
    writer.add_rope_scaling_type(gguf.RopeScalingType(scaling["rope_type"]))
    writer.add_rope_scaling_factor(scaling["factor"])
    writer.add_rope_scaling_orig_ctx_len(scaling.get("original_max_position_embeddings", 0))


def _llama3_factors(config: Mapping[str, object], scaling: Mapping[str, float]) -> NDArray[np.float32]:
    """What each frequency is divided by, as converters compute it from Llama 3.1's rule."""
    head = _head_dim(config)
    waves = 2 * np.pi * float(str(config["rope_theta"])) ** (np.arange(0, head, 2) / head)
    original = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    smooth = (original / waves - low) / (high - low)
    blended = 1.0 / ((1 - smooth) / scaling["factor"] + smooth)
    factors = np.where(
        waves < original / high, 1.0, np.where(waves > original / low, scaling["factor"], blended)
    )
    return factors.astype(np.float32)


def _write_tokenizer(writer: gguf.GGUFWriter) -> None:
    text, spare = _text_tokens(), VOCABULARY - len(_text_tokens()) - len(MARKS)
    tokens = [*text, *MARKS, *(f"[PAD{index}]" for index in range(spare))]
    kinds = [gguf.TokenType.NORMAL] * len(text) + [gguf.TokenType.CONTROL] * len(MARKS)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([*kinds, *[gguf.TokenType.UNUSED] * spare])
    writer.add_token_merges([" ".join(merge) for merge in MERGES])
    writer.add_bos_token_id(len(text) + 1)
    writer.add_eos_token_id(len(text) + 2)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _as_gguf_stores(
    model: TinyModel, architecture: str, name: str, values: NDArray[np.float32]
) -> NDArray[np.float32]:
    if architecture == "gemma3" and name.endswith("norm.weight"):
        return values + 1.0
    if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
        head = _head_dim(model.config)  # rows of a head: 0, d/2, 1, d/2 + 1, ...
        halves = values.reshape(-1, 2, head // 2, *values.shape[1:])
        return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(values.shape))
    return values


def _gguf_name(name: str, architecture: str) -> str:
    stem, _, kind = name.rpartition(".")
    if stem in _GGUF_NAMES:
        return f"{_GGUF_NAMES[stem]}.{kind}"
    _, _, layer, part = stem.split(".", 3)
    if part == "post_attention_layernorm":
        return f"blk.{layer}.{'post_attention_norm' if architecture == 'gemma3' else 'ffn_norm'}.{kind}"
    return f"blk.{layer}.{_GGUF_NAMES[part]}.{kind}"
