"""Small models of every family with random weights, made in memory: nothing is written or read."""

from __future__ import annotations

from dataclasses import replace

import torch

from sgrt.model.config import LayerConfig, ModelConfig, Rope
from sgrt.model.decoder import Decoder
from sgrt.model.random_weights import RandomWeights
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


def random_model(family: str, *, dtype: torch.dtype = torch.float32) -> Decoder:
    """The same weights every time."""
    return load_model(RandomWeights(CONFIGS[family]), compute_dtype=dtype, device=torch.device("cpu"))
