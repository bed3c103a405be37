"""Small models of every family with random weights, made in memory: nothing is written or read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from sgrt.model.config import LayerConfig, ModelConfig, Rope
from sgrt.model.decoder import Decoder
from sgrt.model.registry import load_model
from sgrt_kernels.activation import Activation

_ROPE = Rope(theta=1e4)
_LLAMA = ModelConfig(
    architecture="llama",
    layers=(LayerConfig(rope=_ROPE),) * 2,
    hidden=48,
    heads=4,
    kv_heads=2,
    head_dim=32,
    intermediate=64,
    vocabulary=50,
    context=512,
    norm_epsilon=1e-5,
    activation=Activation.SILU,
    tied_embeddings=False,
)
CONFIGS = {
    "llama": _LLAMA,
    "qwen2": replace(_LLAMA, architecture="qwen2", qkv_bias=True, heads=7, kv_heads=1),
    "qwen3": replace(_LLAMA, architecture="qwen3", qk_norm=True, tied_embeddings=True),
    "gemma3": replace(
        _LLAMA,
        architecture="gemma3",
        qk_norm=True,
        tied_embeddings=True,
        layers=(LayerConfig(rope=_ROPE, window=9), LayerConfig(rope=Rope(theta=1e6))),
        activation=Activation.GELU_TANH,
        embedding_scale=7.0,
    ),
}


@dataclass(slots=True)
class RandomSource:
    """Weights by canonical name, as large as trained ones."""

    config: ModelConfig
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def names(self) -> frozenset[str]:
        if self.config.architecture != "gemma3":
            return frozenset()
        return frozenset(
            f"layers.{index}.{part}.weight"
            for index in range(len(self.config.layers))
            for part in ("post_attention_norm", "post_mlp_norm")
        )

    def tensor(self, name: str) -> Tensor:
        part, _, kind = name.rpartition(".")
        part = part.rpartition(".")[2]
        shape = self._matrix_shape(part)
        if kind == "bias":
            return torch.randn(shape[0], generator=self.generator)
        if "norm" in part:
            return 1 + 0.1 * torch.randn(shape[0], generator=self.generator)
        return torch.randn(shape, generator=self.generator) * float(shape[1] ** -0.5)

    def _matrix_shape(self, part: str) -> tuple[int, int]:
        config = self.config
        shapes = {
            "embedding": (config.vocabulary, config.hidden),
            "output": (config.vocabulary, config.hidden),
            "query": (config.query_width, config.hidden),
            "key": (config.kv_width, config.hidden),
            "value": (config.kv_width, config.hidden),
            "attention_output": (config.hidden, config.query_width),
            "gate": (config.intermediate, config.hidden),
            "up": (config.intermediate, config.hidden),
            "down": (config.hidden, config.intermediate),
            "query_norm": (config.head_dim, 1),
            "key_norm": (config.head_dim, 1),
        }
        return shapes.get(part, (config.hidden, 1))


def random_model(family: str, *, dtype: torch.dtype = torch.float32) -> Decoder:
    """The same weights every time."""
    return load_model(RandomSource(CONFIGS[family]), compute_dtype=dtype, device=torch.device("cpu"))
