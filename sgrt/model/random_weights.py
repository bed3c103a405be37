"""Seeded random weights of any size and family: models for measuring and testing, without a file."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt.model.config import ModelConfig
from sgrt.model.weights import HOST


class RandomWeights:
    """A source of weights as large as trained ones. The same seed gives the same weights on the same device."""

    __slots__ = ("_dtype", "_generator", "config")

    def __init__(
        self,
        config: ModelConfig,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        """Matrices come in `dtype` on `device`, norms in float32."""
        self.config = config
        self._dtype = dtype
        self._generator = torch.Generator(device).manual_seed(seed)

    def names(self) -> frozenset[str]:
        """The optional tensors of the family; those it needs are made when asked for."""
        if self.config.architecture != "gemma3":
            return frozenset()
        return frozenset(
            f"layers.{index}.{part}.weight"
            for index in range(len(self.config.layers))
            for part in ("post_attention_norm", "post_mlp_norm")
        )

    def tensor(self, name: str, device: torch.device = HOST) -> Tensor:
        """Fresh numbers of the shape that `name` has, on `device`."""
        return self._fresh(name).to(device)

    def _fresh(self, name: str) -> Tensor:
        stem, _, kind = name.rpartition(".")
        part = stem.rpartition(".")[2]
        rows, columns = self._shape(part)
        if kind == "bias":
            return self._normal(rows).to(self._dtype)
        if "norm" in part:
            return 1 + 0.1 * self._normal(rows)
        return self._normal(rows, columns).mul_(columns**-0.5).to(self._dtype)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(shape, device=self._generator.device, generator=self._generator)

    def _shape(self, part: str) -> tuple[int, int]:
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
