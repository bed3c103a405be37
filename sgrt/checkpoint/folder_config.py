"""From a Hugging Face config.json to a model's configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from sgrt.checkpoint.json_file import JsonFile
from sgrt.errors import CorruptModel, UnsupportedModel
from sgrt.model.config import ContradictoryConfig, LayerConfig, ModelConfig, Rope
from sgrt_kernels.activation import Activation
from sgrt_kernels.rope_scaling import LinearScaling, Llama3Scaling, RopeScaling, YarnScaling

# Class names of config.json and the architecture they mean here.
ARCHITECTURES: Final = {
    "LlamaForCausalLM": "llama",
    "MistralForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Gemma3ForCausalLM": "gemma3",
    "Gemma3ForConditionalGeneration": "gemma3",  # its text part
}
# What a configuration means where it is silent: published files leave out what equals their class's own defaults.
_GEMMA3_DEFAULTS: Final[Mapping[str, object]] = {
    "vocab_size": 262_208,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "rope_theta": 1_000_000.0,
    "sliding_window": 4096,
    "query_pre_attn_scalar": 256,
}
_DEFAULTS: Final[Mapping[str, Mapping[str, object]]] = {
    "MistralForCausalLM": {"sliding_window": 4096},
    "Qwen2ForCausalLM": {"sliding_window": 4096, "max_window_layers": 28},
    "Qwen3ForCausalLM": {"sliding_window": 4096, "max_window_layers": 28, "head_dim": 128},
    "Gemma3ForCausalLM": _GEMMA3_DEFAULTS,
    "Gemma3ForConditionalGeneration": _GEMMA3_DEFAULTS,
}
_ACTIVATIONS: Final = {
    "silu": Activation.SILU,
    "gelu_pytorch_tanh": Activation.GELU_TANH,
}
_ROPE_KINDS: Final = ("default", "linear", "llama3", "yarn")
_FULL, _SLIDING = "full_attention", "sliding_attention"
_GEMMA3_PATTERN = 6  # every sixth layer sees the whole context, where the file does not say


def read_config(config: JsonFile) -> ModelConfig:
    """The configuration in `config`, the content of a config.json.

    Raises:
        UnsupportedModel: the architecture, or something it asks for, is not known; the message lists what is.
        CorruptModel: a number is missing or contradicts another.
    """
    names = [str(name) for name in config.items("architectures")]
    name = next((name for name in names if name in ARCHITECTURES), None)
    if name is None:
        raise UnsupportedModel(
            f"{config.path}: architecture {', '.join(names) or 'missing'} is unknown; known: {', '.join(ARCHITECTURES)}"
        )
    if config.part("quantization_config").values:
        method = config.part("quantization_config").values.get("quant_method", "?")
        raise UnsupportedModel(
            f"{config.path}: quantization {method!r} is unknown; known are unquantized folders (float32, float16, "
            "bfloat16) and GGUF files"
        )
    text = config.part("text_config") if "text_config" in config.values else config
    whole = JsonFile(config.path, {**_DEFAULTS.get(name, {}), **text.values})
    try:
        return _Reader(whole, ARCHITECTURES[name]).config()
    except ContradictoryConfig as error:
        raise CorruptModel(f"{config.path}: {error}") from error


class _Reader:
    __slots__ = ("_architecture", "_config", "_head_dim", "_hidden")

    def __init__(self, config: JsonFile, architecture: str) -> None:
        self._config = config
        self._architecture = architecture
        self._hidden = config.integer("hidden_size")
        self._head_dim = config.integer(
            "head_dim", self._hidden // max(config.integer("num_attention_heads"), 1)
        )

    def config(self) -> ModelConfig:
        config, architecture = self._config, self._architecture
        self._refuse_what_is_unknown()
        is_gemma = architecture == "gemma3"
        heads = config.integer("num_attention_heads")
        return ModelConfig(
            architecture=architecture,
            layers=self._layers(),
            hidden=self._hidden,
            heads=heads,
            kv_heads=config.integer("num_key_value_heads", heads),
            head_dim=self._head_dim,
            intermediate=config.integer("intermediate_size"),
            vocabulary=config.integer("vocab_size"),
            context=config.integer("max_position_embeddings"),
            norm_epsilon=config.real("rms_norm_eps", 1e-6),
            activation=self._activation(),
            tied_embeddings=config.flag("tie_word_embeddings", is_gemma),
            qkv_bias=architecture == "qwen2" or config.flag("attention_bias", False),
            qk_norm=architecture in ("qwen3", "gemma3"),
            embedding_scale=math.sqrt(self._hidden) if is_gemma else 1.0,
            attention_scale=self._attention_scale(),
            attention_soft_cap=config.optional_real("attn_logit_softcapping"),
            logit_soft_cap=config.optional_real("final_logit_softcapping"),
        )

    def _refuse_what_is_unknown(self) -> None:
        config = self._config
        rotated = config.real("partial_rotary_factor", 1.0)
        if rotated != 1.0:
            raise UnsupportedModel(
                f"{config.path}: partial_rotary_factor is {rotated}; known are rotary positions of the whole head"
            )
        for key in ("mlp_bias", "use_bidirectional_attention"):
            if config.flag(key, False):
                raise UnsupportedModel(f"{config.path}: {key} is not supported")

    def _activation(self) -> Activation:
        key = "hidden_activation" if self._architecture == "gemma3" else "hidden_act"
        default = "gelu_pytorch_tanh" if self._architecture == "gemma3" else "silu"
        name = self._config.string(key, default)
        if name not in _ACTIVATIONS:
            raise UnsupportedModel(
                f"{self._config.path}: activation {name!r} is unknown; known: {', '.join(_ACTIVATIONS)}"
            )
        return _ACTIVATIONS[name]

    def _attention_scale(self) -> float | None:
        scalar = self._config.optional_real("query_pre_attn_scalar")
        return None if scalar is None else 1.0 / math.sqrt(scalar)

    def _layers(self) -> tuple[LayerConfig, ...]:
        window = self._window()
        sliding = LayerConfig(rope=self._rope(_SLIDING), window=window)
        full = LayerConfig(rope=self._rope(_FULL))
        return tuple(sliding if kind == _SLIDING else full for kind in self._layer_types(window))

    def _window(self) -> int | None:
        is_optional = self._architecture in ("qwen2", "qwen3")
        if is_optional and not self._config.flag("use_sliding_window", False):
            return None
        return self._config.integer("sliding_window", 0) or None

    def _layer_types(self, window: int | None) -> tuple[str, ...]:
        count = self._config.integer("num_hidden_layers")
        kinds = tuple(str(kind) for kind in self._config.items("layer_types"))
        if kinds:
            self._check_layer_types(kinds, count)
            return kinds
        if window is None:
            return (_FULL,) * count
        if self._architecture == "gemma3":
            pattern = self._config.integer("sliding_window_pattern", _GEMMA3_PATTERN)
            return tuple(_FULL if index % pattern == pattern - 1 else _SLIDING for index in range(count))
        first = self._config.integer("max_window_layers", 0) if self._architecture.startswith("qwen") else 0
        return tuple(_SLIDING if index >= first else _FULL for index in range(count))

    def _check_layer_types(self, kinds: tuple[str, ...], count: int) -> None:
        unknown = set(kinds) - {_FULL, _SLIDING}
        if unknown or len(kinds) != count:
            raise UnsupportedModel(
                f"{self._config.path}: layer_types must be {count} of {_FULL} or {_SLIDING}, found {len(kinds)} with "
                f"{', '.join(sorted(unknown)) or 'no unknown kind'}"
            )

    def _rope(self, layer_type: str) -> Rope:
        """The rotary positions of a kind of layer: new files nest them by kind, old ones do not."""
        parameters = self._config.part("rope_parameters")
        nested = parameters.part(layer_type)
        if nested.values:
            return Rope(theta=nested.real("rope_theta", 10_000.0), scaling=self._scaling(nested))
        if self._architecture == "gemma3" and layer_type == _SLIDING:
            return Rope(theta=self._config.real("rope_local_base_freq", 10_000.0))
        theta = parameters.real("rope_theta", self._config.real("rope_theta", 10_000.0))
        return Rope(
            theta=theta, scaling=self._scaling(parameters if parameters.values else self._old_scaling())
        )

    def _old_scaling(self) -> JsonFile:
        return self._config.part("rope_scaling")

    def _scaling(self, part: JsonFile) -> RopeScaling | None:
        kind = part.string("rope_type", part.string("type", "default"))
        original = part.integer(
            "original_max_position_embeddings", self._config.integer("max_position_embeddings")
        )
        match kind:
            case "default":
                return None
            case "linear":
                return LinearScaling(factor=part.real("factor"))
            case "llama3":
                return Llama3Scaling(
                    factor=part.real("factor"),
                    low_frequency_factor=part.real("low_freq_factor"),
                    high_frequency_factor=part.real("high_freq_factor"),
                    original_context=original,
                )
            case "yarn" if (
                part.flag("truncate", True) and not {"mscale", "mscale_all_dim"} & part.values.keys()
            ):
                return YarnScaling(
                    factor=part.real("factor"),
                    original_context=original,
                    beta_fast=part.real("beta_fast", 32.0),
                    beta_slow=part.real("beta_slow", 1.0),
                    attention_factor=part.optional_real("attention_factor"),
                )
        raise UnsupportedModel(
            f"{self._config.path}: rotary scaling {kind!r} with {sorted(part.values)} is unknown; known: "
            f"{', '.join(_ROPE_KINDS)}"
        )
