"""A workload: a program, its items, and generated prose of a wanted length."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sgrt_frontend.program import Program
from sgrt_frontend.scripted_tokenizer import COMMON_WORDS

_WORDS = [word for word in COMMON_WORDS if word.islower()]


class Prose:
    """Random text, the same for the same seed. A word is about one token."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, tokens: int) -> str:
        """Sentences of about so many tokens."""
        sentences: list[str] = []
        left = tokens
        while left > 0:
            size = min(left, self._random.randint(6, 16))
            words = self._random.choices(_WORDS, k=max(1, size - 1))
            sentences.append(" ".join(words).capitalize() + ".")
            left -= size
        return " ".join(sentences)

    def number(self, low: int, high: int) -> int:
        """A number between two bounds."""
        return self._random.randint(low, high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A program and the items it runs on. `concurrency=1` is a serial workload."""

    name: str
    program: Program[..., Any]
    items: Sequence[Mapping[str, object]]
    concurrency: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much of the full workload runs: a share of its items, and of its output lengths."""

    items: float = 1.0
    outputs: float = 1.0

    def count(self, full: int) -> int:
        """Items to run."""
        return max(1, round(full * self.items))

    def tokens(self, full: int) -> int:
        """Output tokens to allow."""
        return max(1, round(full * self.outputs))


Build = Callable[[Scale], Workload]
