"""Numbers of deferred expressions."""

from __future__ import annotations

from collections.abc import Hashable

from sgrt_grammars.expression import Deferred, Expression


class DeferredTable:
    """The deferred expressions met so far, numbered by key; each is built at most once."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._expressions: list[Deferred] = []

    def __len__(self) -> int:
        return len(self._expressions)

    def number(self, expression: Deferred) -> int:
        """The number of the key."""
        number = self._numbers.get(expression.key)
        if number is None:
            number = self._numbers[expression.key] = len(self._expressions)
            self._expressions.append(expression)
        return number

    def build(self, number: int) -> Expression:
        """What the deferred expression stands for; `~number`: the part of it that holds its completion."""
        if number >= 0:
            return self._expressions[number].build()
        short = self._expressions[~number].build_short
        if short is None:
            raise ValueError(f"deferred expression {~number} has no short form")
        return short()
