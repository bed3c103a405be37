"""The one shape every model file is read through.

Tensor names are canonical, whatever the file calls them (`N` counts layers from 0):

    embedding.weight               [vocabulary, hidden]
    layers.N.attention_norm.weight [hidden]
    layers.N.query.weight          [heads * head_dim, hidden]      .bias [heads * head_dim]
    layers.N.key.weight            [kv_heads * head_dim, hidden]   .bias [kv_heads * head_dim]
    layers.N.value.weight          [kv_heads * head_dim, hidden]   .bias [kv_heads * head_dim]
    layers.N.query_norm.weight     [head_dim]                      layers.N.key_norm.weight
    layers.N.attention_output.weight [hidden, heads * head_dim]
    layers.N.post_attention_norm.weight [hidden]                   before the residual sum (Gemma)
    layers.N.mlp_norm.weight       [hidden]
    layers.N.gate.weight, layers.N.up.weight [intermediate, hidden]
    layers.N.down.weight           [hidden, intermediate]
    layers.N.post_mlp_norm.weight  [hidden]                        before the residual sum (Gemma)
    final_norm.weight              [hidden]
    output.weight                  [vocabulary, hidden]            absent where embeddings are tied

Rows of query and key are in half-split rotary order (pairs i, i + head_dim / 2), and norm weights
are what the normalised input is multiplied by: what a file stores otherwise is undone here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrt.model.config import ModelConfig
from sgrt.model.weights import HOST
from sgrt.tokenizer.data import TokenizerData


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedTensor:
    """A weight as its file stores it. Row `i` of `blocks` holds row `i` of the canonical tensor."""

    type_name: str  # ggml's name: "Q4_1", "Q8_0", "F32", ...
    shape: tuple[int, ...]  # of the canonical tensor, [rows, columns] or [columns]
    blocks: NDArray[np.uint8]  # [rows, bytes per row]; read-only, may be a view of the mapped file


class Checkpoint(Protocol):
    """An open model file or folder. Headers are checked when it is opened, weights are read when asked for."""

    @property
    def name(self) -> str:
        """How people call the model."""
        ...

    @property
    def config(self) -> ModelConfig:
        """The model's numbers."""
        ...

    @property
    def tokenizer_data(self) -> TokenizerData:
        """What its tokenizer is built from."""
        ...

    def names(self) -> frozenset[str]:
        """Canonical names of all tensors of the model."""
        ...

    def tensor(self, name: str, device: torch.device = HOST) -> Tensor:
        """The tensor under its canonical name on `device`, dequantized: float32, or the file's own float type.

        Raises:
            CorruptModel: the file has no such tensor.
        """
        ...

    def packed(self, name: str) -> PackedTensor:
        """The tensor's stored blocks, rows in canonical order.

        Raises:
            CorruptModel: the file has no such tensor.
            UnsupportedModel: the file does not store tensors in ggml's types.
        """
        ...
