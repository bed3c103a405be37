"""What all families share: tokens in, layers in order, logits out. A family says what a layer is."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt.model.blocks import Step, add_and_normalize
from sgrt.model.config import ModelConfig
from sgrt.model.weights import DecoderWeights
from sgrt_kernels.ops.embedding import embedding
from sgrt_kernels.ops.linear import linear


class Decoder(ABC):
    """A decoder-only transformer with its weights."""

    __slots__ = ("_config", "_weights")

    def __init__(self, config: ModelConfig, weights: DecoderWeights) -> None:
        self._config = config
        self._weights = weights

    @property
    def config(self) -> ModelConfig:
        """The model's numbers."""
        return self._config

    @property
    def weights(self) -> DecoderWeights:
        """The model's weights."""
        return self._weights

    @torch.inference_mode()
    def forward(self, batch: Batch) -> Tensor:
        """Write the batch's keys and values into their pages and return logits, [rows, vocabulary] float32."""
        config, weights = self._config, self._weights
        step = Step.of(batch, config)
        residual = embedding(batch.token_ids, weights.embedding)
        if config.embedding_scale != 1.0:
            residual = residual * config.embedding_scale
        update = torch.zeros_like(residual)
        for index in range(len(config.layers)):
            update, residual = self._layer(index, update, residual, step)
        rows = batch.logit_rows
        final, _ = add_and_normalize(update[rows], residual[rows], weights.final_norm, config.norm_epsilon)
        return self._logits(final, batch)

    @abstractmethod
    def _layer(self, index: int, update: Tensor, residual: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """Layer `index`. The hidden state that enters and the one that leaves is `update + residual`.

        The sum is left to whoever normalises it next, so that one pass over memory does both.
        """

    def _logits(self, hidden: Tensor, batch: Batch) -> Tensor:
        weight = self._weights.output
        logits = linear(hidden, weight, is_batch_invariant=batch.is_batch_invariant).float()
        cap = self._config.logit_soft_cap
        return logits if cap is None else cap * torch.tanh(logits / cap)
