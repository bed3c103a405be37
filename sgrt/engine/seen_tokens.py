"""The tokens an output has seen, as penalties count them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]
Counts = NDArray[np.float32]


class SeenTokens:
    """Distinct tokens, and how often each was generated: 0 for those of the prompt alone.

    Kept as arrays that grow with the output, because a step needs them whole and a prompt has thousands.
    """

    __slots__ = ("_counts", "_places", "_tokens")

    def __init__(self, prompt: Sequence[int]) -> None:
        distinct = np.unique(np.asarray(prompt, np.int64))
        self._places = {token: place for place, token in enumerate(distinct.tolist())}
        self._tokens: Tokens = np.resize(distinct, 2 * len(distinct) + 64)
        self._counts: Counts = np.zeros(len(self._tokens), np.float32)

    def take(self, token: int) -> None:
        """`token` was generated."""
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._tokens):
            self._tokens = np.resize(self._tokens, 2 * place)
            self._counts = np.concatenate([self._counts, np.zeros(place, np.float32)])
        self._tokens[place] = token
        self._counts[place] += 1

    def entries(self, drafts: Sequence[int] = ()) -> tuple[Tokens, Counts]:
        """The tokens and their counts, as if `drafts` had been generated too. Not to be written to."""
        size = len(self._places)
        tokens, counts = self._tokens[:size], self._counts[:size]
        if not drafts:
            return tokens, counts
        known = [self._places[draft] for draft in drafts if draft in self._places]
        others, of_others = np.unique(
            np.asarray([draft for draft in drafts if draft not in self._places], np.int64), return_counts=True
        )
        counts = counts.copy()
        np.add.at(counts, known, 1)
        return np.concatenate([tokens, others]), np.concatenate([counts, of_others.astype(np.float32)])
