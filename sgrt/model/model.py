"""What the runner asks of a model."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from sgrt.model.batch import Batch
from sgrt.model.config import ModelConfig


class Model(Protocol):
    """A model with its weights. It has no state: pages and lengths come with the batch."""

    @property
    def config(self) -> ModelConfig:
        """The model's numbers."""
        ...

    def forward(self, batch: Batch) -> Tensor:
        """Write the batch's keys and values into their pages and return logits.

        Returns [rows, vocabulary] float32, one row per entry of `batch.logit_rows`. A row depends on its own
        sequence alone, not on what else is in the batch.
        """
        ...
