"""Qwen3 (dense)."""

from __future__ import annotations

from sgrt.model.llama import Llama


class Qwen3(Llama):
    """Llama's layers with every head's query and key normalised before rotation; the weights bring the norms along."""

    __slots__ = ()
