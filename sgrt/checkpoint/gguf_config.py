"""From the metadata of a GGUF file to a model's configuration."""

from __future__ import annotations

import math
from typing import Final

from sgrt.checkpoint.gguf_file import GgufFile
from sgrt.errors import CorruptModel, UnsupportedModel
from sgrt.model.config import ContradictoryConfig, LayerConfig, ModelConfig, Rope
from sgrt_kernels.activation import Activation
from sgrt_kernels.rope_scaling import FactorScaling, LinearScaling, RopeScaling, YarnScaling

ARCHITECTURES: Final = ("llama", "qwen2", "qwen3", "gemma3")
_DEFAULT_THETA = 10_000.0
_ROPE_FACTORS = "rope_freqs.weight"

# Gemma 3's local layers are not described in its files (converters rely on the architecture's fixed values).
_GEMMA3_LOCAL_THETA = 10_000.0
_GEMMA3_PATTERN = 6  # every sixth layer sees the whole context
_GEMMA3_27B_LAYERS = 62  # the one size whose query scale comes from hidden / heads, not from head_dim


def read_config(file: GgufFile) -> ModelConfig:
    """The configuration of the model in `file`.

    Raises:
        UnsupportedModel: the architecture, or something it asks for, is not known; the message lists what is.
        CorruptModel: a number is missing or contradicts another.
    """
    parts = file.integer("split.count", 1)
    if parts > 1:
        raise UnsupportedModel(
            f"{file.path}: this is one of {parts} parts; known are whole GGUF files (`llama-gguf-split --merge` joins them)"
        )
    architecture = file.string("general.architecture")
    if architecture not in ARCHITECTURES:
        raise UnsupportedModel(
            f"{file.path}: architecture {architecture!r} is unknown; known GGUF architectures: {', '.join(ARCHITECTURES)}"
        )
    try:
        return _Reader(file, architecture).config()
    except ContradictoryConfig as error:
        raise CorruptModel(f"{file.path}: {error}") from error


class _Reader:
    """Reads the keys of one architecture, which all start with its name."""

    __slots__ = ("_architecture", "_file", "_head_dim", "_heads", "_hidden", "_num_layers")

    def __init__(self, file: GgufFile, architecture: str) -> None:
        self._file = file
        self._architecture = architecture
        self._hidden = self._integer("embedding_length")
        self._heads = self._integer("attention.head_count")
        self._num_layers = self._integer("block_count")
        self._head_dim = self._integer("attention.key_length", self._hidden // max(self._heads, 1))

    def config(self) -> ModelConfig:
        """The whole configuration."""
        self._refuse_what_is_unknown()
        is_gemma = self._architecture == "gemma3"
        tensors = self._file.header.tensors
        return ModelConfig(
            architecture=self._architecture,
            layers=self._gemma3_layers() if is_gemma else self._uniform_layers(),
            hidden=self._hidden,
            heads=self._heads,
            kv_heads=self._integer("attention.head_count_kv", self._heads),
            head_dim=self._head_dim,
            intermediate=self._integer("feed_forward_length"),
            vocabulary=self._vocabulary(),
            context=self._integer("context_length"),
            norm_epsilon=self._real("attention.layer_norm_rms_epsilon"),
            activation=Activation.GELU_TANH if is_gemma else Activation.SILU,
            tied_embeddings="output.weight" not in tensors,
            qkv_bias="blk.0.attn_q.bias" in tensors,
            qk_norm="blk.0.attn_q_norm.weight" in tensors,
            embedding_scale=math.sqrt(self._hidden) if is_gemma else 1.0,
            attention_scale=self._attention_scale(),
            attention_soft_cap=self._optional_real("attn_logit_softcapping"),
            logit_soft_cap=self._optional_real("final_logit_softcapping"),
        )

    def _refuse_what_is_unknown(self) -> None:
        rotated = self._integer("rope.dimension_count", self._head_dim)
        value_length = self._integer("attention.value_length", self._head_dim)
        experts = self._integer("expert_count", 0)
        reason = ""
        if rotated != self._head_dim:
            reason = f"only {rotated} of {self._head_dim} channels are rotated"
        elif value_length != self._head_dim:
            reason = f"values have {value_length} channels, keys {self._head_dim}"
        elif experts:
            reason = f"it is a mixture of {experts} experts"
        if reason:
            raise UnsupportedModel(
                f"{self._file.path}: {reason}; known are dense models with whole-head rotary positions"
            )

    def _uniform_layers(self) -> tuple[LayerConfig, ...]:
        rope = Rope(theta=self._real("rope.freq_base", _DEFAULT_THETA), scaling=self._scaling())
        window = self._integer("attention.sliding_window", 0)
        return (LayerConfig(rope=rope, window=window or None),) * self._num_layers

    def _gemma3_layers(self) -> tuple[LayerConfig, ...]:
        everywhere = LayerConfig(
            rope=Rope(theta=self._real("rope.freq_base", 1_000_000.0), scaling=self._scaling())
        )
        local = LayerConfig(
            rope=Rope(theta=self._real("rope.freq_base_swa", _GEMMA3_LOCAL_THETA)),
            window=self._integer("attention.sliding_window"),
        )
        return tuple(local if is_local else everywhere for is_local in self._gemma3_pattern())

    def _gemma3_pattern(self) -> tuple[bool, ...]:
        """Which layers see a window only: a list in newer files, a period in others, mostly not there at all."""
        key = f"{self._architecture}.attention.sliding_window_pattern"
        listed = self._file.header.metadata.get(key)
        if isinstance(listed, list):
            if len(listed) != self._num_layers:
                raise CorruptModel(
                    f"{self._file.path}: metadata {key!r} has {len(listed)} entries for {self._num_layers} layers"
                )
            return tuple(bool(entry) for entry in listed)
        period = self._file.integer(key, _GEMMA3_PATTERN)
        return tuple(index % period != period - 1 for index in range(self._num_layers))

    def _scaling(self) -> RopeScaling | None:
        record = self._file.header.tensors.get(_ROPE_FACTORS)
        if record is not None:
            factors = self._file.values(self._file.blocks(record), record).reshape(-1)
            return FactorScaling(factors=tuple(float(factor) for factor in factors))
        kind = self._file.string(f"{self._architecture}.rope.scaling.type", "none")
        if kind == "none":
            return None
        factor = self._real("rope.scaling.factor", 1.0)
        if kind == "linear":
            return LinearScaling(factor=factor)
        if kind == "yarn":
            return self._yarn(factor)
        raise UnsupportedModel(
            f"{self._file.path}: rotary scaling {kind!r} is unknown; known: none, linear, yarn, {_ROPE_FACTORS}"
        )

    def _yarn(self, factor: float) -> YarnScaling:
        gain = self._optional_real("rope.scaling.attn_factor")  # on top of the paper's factor
        return YarnScaling(
            factor=factor,
            original_context=self._integer("rope.scaling.original_context_length"),
            beta_fast=self._real("rope.scaling.yarn_beta_fast", 32.0),
            beta_slow=self._real("rope.scaling.yarn_beta_slow", 1.0),
            attention_factor=None if gain is None else gain * (0.1 * math.log(factor) + 1.0),
        )

    def _attention_scale(self) -> float | None:
        if self._architecture == "gemma3" and self._num_layers == _GEMMA3_27B_LAYERS:
            return 1.0 / math.sqrt(self._hidden / self._heads)
        return None

    def _vocabulary(self) -> int:
        record = self._file.header.tensors.get("token_embd.weight")
        return record.shape[0] if record is not None else self._integer("vocab_size")

    def _integer(self, key: str, default: int | None = None) -> int:
        return self._file.integer(f"{self._architecture}.{key}", default)

    def _real(self, key: str, default: float | None = None) -> float:
        return self._file.real(f"{self._architecture}.{key}", default)

    def _optional_real(self, key: str) -> float | None:
        full = f"{self._architecture}.{key}"
        if full not in self._file.header.metadata:
            return None
        return self._file.real(full)
