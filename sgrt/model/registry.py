"""From the name of an architecture to the class that runs it, and a model from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import torch

from sgrt.errors import UnsupportedModel
from sgrt.model.decoder import Decoder
from sgrt.model.gemma3 import Gemma3
from sgrt.model.llama import Llama
from sgrt.model.qwen2 import Qwen2
from sgrt.model.qwen3 import Qwen3
from sgrt.model.weights import WeightSource, load_weights

FAMILIES: Final[Mapping[str, type[Decoder]]] = MappingProxyType(
    {"llama": Llama, "qwen2": Qwen2, "qwen3": Qwen3, "gemma3": Gemma3}
)


def load_model(source: WeightSource, *, compute_dtype: torch.dtype, device: torch.device) -> Decoder:
    """Read a model's weights and make the model that computes in `compute_dtype` on `device`.

    Raises:
        UnsupportedModel: the architecture has no class; the message lists those that have.
        CorruptModel: a tensor is missing or has the wrong shape.
    """
    family = FAMILIES.get(source.config.architecture)
    if family is None:
        raise UnsupportedModel(
            f"architecture {source.config.architecture!r} is unknown; known: {', '.join(FAMILIES)}"
        )
    weights = load_weights(source, dtype=compute_dtype, device=device)
    return family(source.config, weights)
