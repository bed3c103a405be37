"""A grammar that allows a few given token runs: small enough to be checked by eye, with all a matcher can do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class WordGrammar:
    """The text is exactly one of `words`."""

    def __init__(self, words: Sequence[Sequence[int]], *, end_token_id: int) -> None:
        self.words = tuple(tuple(word) for word in words)
        self.end_token_id = end_token_id

    @property
    def minimum_tokens(self) -> int:
        return min(map(len, self.words))

    def matcher(self) -> WordMatcher:
        return WordMatcher(self)


class WordMatcher:
    """The words that the tokens so far begin."""

    def __init__(self, grammar: WordGrammar) -> None:
        self._grammar = grammar
        self._taken: list[int] = []

    def _rests(self) -> list[tuple[int, ...]]:
        taken = tuple(self._taken)
        return [word[len(taken) :] for word in self._grammar.words if word[: len(taken)] == taken]

    @property
    def is_exhausted(self) -> bool:
        return self._rests() == [()]

    def mask(self, out: NDArray[np.uint32], remaining: int | None = None) -> None:
        out[:] = 0
        for rest in self._rests():
            token = rest[0] if rest else self._grammar.end_token_id
            if remaining is None or len(rest) <= remaining:
                out[token // 32] |= np.uint32(1 << token % 32)

    def advance(self, token: int, remaining: int | None = None) -> bool:
        if any(
            rest[:1] == (token,) and (remaining is None or len(rest) <= remaining) for rest in self._rests()
        ):
            self._taken.append(token)
            return True
        return False

    def row(self) -> tuple[int, NDArray[np.uint32]] | None:
        return None

    def rollback(self, count: int) -> None:
        del self._taken[len(self._taken) - count :]

    def fork(self) -> WordMatcher:
        copy = WordMatcher(self._grammar)
        copy._taken = list(self._taken)
        return copy

    def shortest_completion(self) -> tuple[int, ...]:
        return min(self._rests(), key=len)

    def forced_bytes(self) -> bytes:
        return bytes(self.forced_tokens())

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token != self._grammar.end_token_id else b""

    def forced_tokens(self) -> list[int]:
        rests = self._rests()
        forced = []
        for column in zip(*rests, strict=False):
            if len(set(column)) > 1:
                break
            forced.append(column[0])
        return forced
