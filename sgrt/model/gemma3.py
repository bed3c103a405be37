"""Gemma 3 (text)."""

from __future__ import annotations

from torch import Tensor

from sgrt.errors import CorruptModel
from sgrt.model.blocks import Step, add_and_normalize, attention, feed_forward, normalize
from sgrt.model.config import ModelConfig
from sgrt.model.decoder import Decoder
from sgrt.model.weights import DecoderWeights


class Gemma3(Decoder):
    """Layers that normalise both what a block reads and what it returns; most see a sliding window only."""

    __slots__ = ("_post_norms",)

    def __init__(self, config: ModelConfig, weights: DecoderWeights) -> None:
        """Take the weights.

        Raises:
            CorruptModel: a layer lacks its post norms.
        """
        super().__init__(config, weights)
        self._post_norms = tuple(
            _post_norms(layer.post_attention_norm, layer.post_mlp_norm) for layer in weights.layers
        )

    def _layer(self, index: int, update: Tensor, residual: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        config, weights = self._config, self._weights.layers[index]
        post_attention_norm, post_mlp_norm = self._post_norms[index]
        x, residual = add_and_normalize(update, residual, weights.attention_norm, config.norm_epsilon)
        x = attention(x, weights.attention, config, config.layers[index], step.batch.layers[index], step)
        x = normalize(x, post_attention_norm, config.norm_epsilon)
        x, residual = add_and_normalize(x, residual, weights.mlp_norm, config.norm_epsilon)
        x = feed_forward(x, weights.feed_forward, config.activation, step.batch)
        return normalize(x, post_mlp_norm, config.norm_epsilon), residual


def _post_norms(attention_norm: Tensor | None, mlp_norm: Tensor | None) -> tuple[Tensor, Tensor]:
    if attention_norm is None or mlp_norm is None:
        raise CorruptModel("a Gemma 3 layer lacks post_attention_norm.weight or post_mlp_norm.weight")
    return attention_norm, mlp_norm
