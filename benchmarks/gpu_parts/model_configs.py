"""The models of the benchmark: an 8B Llama to be timed, and small ones of every family to be compared."""

from __future__ import annotations

from dataclasses import replace

from sgrt.model.config import LayerConfig, ModelConfig, Rope
from sgrt_kernels.activation import Activation


def llama(
    *, layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int, intermediate: int, vocabulary: int
) -> ModelConfig:
    """A Llama of these sizes."""
    return ModelConfig(
        architecture="llama",
        layers=(LayerConfig(rope=Rope(theta=5e5)),) * layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=intermediate,
        vocabulary=vocabulary,
        context=131_072,
        norm_epsilon=1e-5,
        activation=Activation.SILU,
        tied_embeddings=False,
    )  # fmt: skip


LLAMA_8B = llama(
    layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=14336, vocabulary=128_256
)
LLAMA_DRY = llama(layers=1, hidden=64, heads=2, kv_heads=1, head_dim=32, intermediate=96, vocabulary=200)


def small_models(*, is_dry: bool) -> dict[str, ModelConfig]:
    """A Llama, a Qwen3 and a Gemma 3, each with what its family adds."""
    plain = (
        llama(layers=2, heads=4, kv_heads=2, head_dim=32, hidden=64, intermediate=96, vocabulary=100)
        if is_dry
        else llama(layers=3, heads=4, kv_heads=2, head_dim=64, hidden=256, intermediate=512, vocabulary=1000)
    )
    near = LayerConfig(rope=Rope(theta=1e4), window=24 if is_dry else 48)
    far = LayerConfig(rope=Rope(theta=1e6))
    normed = replace(plain, context=4096, norm_epsilon=1e-6, tied_embeddings=True, qk_norm=True)
    return {
        "llama": plain,
        "qwen3": replace(normed, architecture="qwen3"),
        "gemma3": replace(
            normed,
            architecture="gemma3",
            layers=(near, far, near)[: len(plain.layers)],
            activation=Activation.GELU_TANH,
            embedding_scale=16.0,
        ),
    }
