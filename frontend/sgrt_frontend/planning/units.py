"""Unknown runs of tokens: one negative number stands for a run whose length has known bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum


class UnitKind(Enum):
    """What an unknown run is."""

    GENERATED = "generated"  # the tokens of a generation, in the state that generated them
    TEXT = "text"  # generated text that was put into a constant and is encoded there
    ARGUMENT = "argument"  # text of an argument that the plan leaves open


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """An unknown run: at least `low` and at most `high` tokens. `producer` is the label of the call it comes from."""

    kind: UnitKind
    low: int
    high: int
    producer: str = ""


class Units:
    """All unknown runs of a plan. Run number k stands as -k in token sequences and as marker k in text."""

    def __init__(self) -> None:
        self._units: list[Unit] = []
        self._as_text: dict[int, int] = {}

    def add(self, unit: Unit) -> int:
        """A new unknown run; its number, from 1."""
        self._units.append(unit)
        return len(self._units)

    def __getitem__(self, number: int) -> Unit:
        return self._units[number - 1]

    def in_text(self, number: int) -> int:
        """The run of the same text as run `number`, encoded in a constant: other tokens, about as many.

        A border that falls otherwise costs or saves a token at each end.
        """
        unit = self[number]
        if unit.kind is not UnitKind.GENERATED:
            return number
        if number not in self._as_text:
            low = max(0, unit.low // 2)
            made = Unit(kind=UnitKind.TEXT, low=low, high=2 * unit.high + 4, producer=unit.producer)
            self._as_text[number] = self.add(made)
        return self._as_text[number]

    def fixed(self, sizes: Mapping[int, int]) -> Units:
        """The same runs, those named with a size that is known by now; their texts are about as long."""
        known = Units()
        known._units, known._as_text = list(self._units), dict(self._as_text)
        for number, size in sizes.items():
            for place in (number, self._as_text.get(number)):
                if place is not None:
                    known._units[place - 1] = replace(self[place], low=size, high=size)
        return known

    def size(self, tokens: tuple[int, ...]) -> Bounds:
        """The bounds of a sequence's length."""
        unknown = [self[-token] for token in tokens if token < 0]
        known = len(tokens) - len(unknown)
        return Bounds(known + sum(unit.low for unit in unknown), known + sum(unit.high for unit in unknown))


@dataclass(frozen=True, slots=True)
class Bounds:
    """At least `low`, at most `high`; equal when the plan is exact."""

    low: int
    high: int

    @property
    def is_exact(self) -> bool:
        """Whether there is one possible number."""
        return self.low == self.high

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __contains__(self, number: int) -> bool:
        return self.low <= number <= self.high

    def __str__(self) -> str:
        return str(self.low) if self.is_exact else f"{self.low}-{self.high}"


ONCE = Bounds(1, 1)
