"""Qwen2 and Qwen2.5."""

from __future__ import annotations

from sgrt.model.llama import Llama


class Qwen2(Llama):
    """Llama's layers with biases on query, key and value, which the weights bring along."""

    __slots__ = ()
