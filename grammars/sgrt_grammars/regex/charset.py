"""Sets of characters: sorted, disjoint ranges of Unicode scalar values (surrogates never belong)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CharSet:
    """A set of characters as inclusive ranges, sorted, with a gap between any two."""

    ranges: tuple[Range, ...]

    @staticmethod
    def of(characters: Iterable[str]) -> CharSet:
        """The set of these single characters."""
        return CharSet.from_ranges((ord(character), ord(character)) for character in characters)

    @staticmethod
    def between(first: str, last: str) -> CharSet:
        """All characters from `first` to `last`, both included."""
        return CharSet.from_ranges([(ord(first), ord(last))])

    @staticmethod
    def from_ranges(ranges: Iterable[Range]) -> CharSet:
        """The union of inclusive ranges in any order; surrogates are dropped."""
        merged: list[Range] = []
        for low, high in sorted(_without_surrogates(ranges)):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return CharSet(tuple(merged))

    def __contains__(self, character: str) -> bool:
        code = ord(character)
        index = bisect_right(self.ranges, (code, LAST + 1))
        return index > 0 and self.ranges[index - 1][1] >= code

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet.from_ranges(self.ranges + other.ranges)

    def __and__(self, other: CharSet) -> CharSet:
        common: list[Range] = []
        mine, theirs = 0, 0
        while mine < len(self.ranges) and theirs < len(other.ranges):
            (low, high), (other_low, other_high) = self.ranges[mine], other.ranges[theirs]
            if max(low, other_low) <= min(high, other_high):
                common.append((max(low, other_low), min(high, other_high)))
            if high < other_high:
                mine += 1
            else:
                theirs += 1
        return CharSet(tuple(common))

    def __invert__(self) -> CharSet:
        gaps: list[Range] = []
        start = 0
        for low, high in self.ranges:
            if start < low:
                gaps.append((start, low - 1))
            start = high + 1
        if start <= LAST:
            gaps.append((start, LAST))
        return CharSet.from_ranges(gaps)

    def __sub__(self, other: CharSet) -> CharSet:
        return self & ~other

    @property
    def size(self) -> int:
        """How many characters belong."""
        return sum(high - low + 1 for low, high in self.ranges)

    @property
    def is_wide(self) -> bool:
        """Whether all characters but a few belong (as in `[^,]` or `.`)."""
        return self.size > 0x100000


def _without_surrogates(ranges: Iterable[Range]) -> Iterable[Range]:
    first, last = _SURROGATES
    for low, high in ranges:
        if low < first:
            yield low, min(high, first - 1)
        if high > last:
            yield max(low, last + 1), high


NO_CHARACTER = CharSet(())
EVERY_CHARACTER = ~NO_CHARACTER
