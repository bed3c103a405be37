"""Looks up token embeddings in plain torch."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def embedding(token_ids: Tensor, weight: Tensor) -> Tensor:
    """The rows of `weight` named by `token_ids`; see the op."""
    return functional.embedding(token_ids, weight)
