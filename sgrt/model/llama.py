"""Llama, and those built like it: SmolLM2, Mistral."""

from __future__ import annotations

from torch import Tensor

from sgrt.model.blocks import Step, add_and_normalize, attention, feed_forward
from sgrt.model.decoder import Decoder


class Llama(Decoder):
    """Pre-norm layers: attention, then a gated feed-forward block, each added to what it read."""

    __slots__ = ()

    def _layer(self, index: int, update: Tensor, residual: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        config, weights = self._config, self._weights.layers[index]
        x, residual = add_and_normalize(update, residual, weights.attention_norm, config.norm_epsilon)
        x = attention(x, weights.attention, config, config.layers[index], step.batch.layers[index], step)
        x, residual = add_and_normalize(x, residual, weights.mlp_norm, config.norm_epsilon)
        return feed_forward(x, weights.feed_forward, config.activation, step.batch), residual
