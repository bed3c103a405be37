"""Sets of numbers: unions of intervals with multiples, closed under intersection and complement."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberRange:
    """Numbers of an interval that are multiples of `step` (None: any) and of none of `avoided`."""

    low: Fraction | None = None
    is_low_open: bool = False
    high: Fraction | None = None
    is_high_open: bool = False
    step: Fraction | None = None
    avoided: frozenset[Fraction] = frozenset()

    @staticmethod
    def point(value: Fraction) -> NumberRange:
        """Exactly one number."""
        return NumberRange(low=value, high=value)

    @property
    def value(self) -> Fraction | None:
        """The single number of the range, when its interval is one point."""
        return self.low if self.low is not None and self.low == self.high else None

    def __contains__(self, value: Fraction) -> bool:
        if self.low is not None and (value < self.low or (self.is_low_open and value == self.low)):
            return False
        if self.high is not None and (value > self.high or (self.is_high_open and value == self.high)):
            return False
        if self.step is not None and value % self.step:
            return False
        return all(value % avoided for avoided in self.avoided)

    @property
    def is_empty(self) -> bool:
        """Whether surely no number belongs (exact but for sets of avoided multiples in a bounded interval)."""
        low, high = self.low, self.high
        if self.step is not None and any(not self.step % avoided for avoided in self.avoided):
            return True
        if low is None or high is None:
            return False
        if low >= high:
            return low > high or low not in self
        return self.step is not None and self._first_multiple(low) > self._last_multiple(high)

    def _first_multiple(self, low: Fraction) -> int:
        assert self.step is not None, "only a range with a step has multiples"
        first = math.ceil(low / self.step)
        return first + (self.is_low_open and first * self.step == low)

    def _last_multiple(self, high: Fraction) -> int:
        assert self.step is not None, "only a range with a step has multiples"
        last = math.floor(high / self.step)
        return last - (self.is_high_open and last * self.step == high)


NumberSet = tuple[NumberRange, ...]

ALL_NUMBERS: NumberSet = (NumberRange(),)
NO_NUMBER: NumberSet = ()
INTEGERS: NumberSet = (NumberRange(step=Fraction(1)),)


def intersect_numbers(one: NumberSet, other: NumberSet) -> NumberSet:
    """Numbers in both sets."""
    if one == ALL_NUMBERS:
        return other
    if other == ALL_NUMBERS:
        return one
    found = (_intersect_ranges(first, second) for first in one for second in other)
    return tuple(dict.fromkeys(found_range for found_range in found if not found_range.is_empty))


def _intersect_ranges(one: NumberRange, other: NumberRange) -> NumberRange:
    low, is_low_open = _tighter(one.low, one.is_low_open, other.low, other.is_low_open, sign=1)
    high, is_high_open = _tighter(one.high, one.is_high_open, other.high, other.is_high_open, sign=-1)
    return NumberRange(
        low=low,
        is_low_open=is_low_open,
        high=high,
        is_high_open=is_high_open,
        step=_common_step(one.step, other.step),
        avoided=one.avoided | other.avoided,
    )


def _tighter(
    one: Fraction | None, one_open: bool, other: Fraction | None, other_open: bool, *, sign: int
) -> tuple[Fraction | None, bool]:
    if one is None or other is None:
        return (other, other_open) if one is None else (one, one_open)
    if one == other:
        return one, one_open or other_open
    return (one, one_open) if (one - other) * sign > 0 else (other, other_open)


def _common_step(one: Fraction | None, other: Fraction | None) -> Fraction | None:
    """The smallest number that is a multiple of both: lcm(a/b, c/d) = lcm(ad, cb) / bd."""
    if one is None or other is None:
        return other if one is None else one
    top = math.lcm(one.numerator * other.denominator, other.numerator * one.denominator)
    return Fraction(top, one.denominator * other.denominator)


def complement_numbers(numbers: NumberSet) -> NumberSet:
    """Numbers that are in no range of the set."""
    points = sorted(one.value for one in numbers if one.value is not None)
    result = _between(points)
    for one in numbers:
        if one.value is None:
            result = intersect_numbers(result, _complement_range(one))
    return result


def _between(points: list[Fraction]) -> NumberSet:
    """All numbers but the given ones, in increasing order."""
    edges: list[Fraction | None] = [None, *dict.fromkeys(points), None]
    return tuple(
        NumberRange(low=low, is_low_open=low is not None, high=high, is_high_open=high is not None)
        for low, high in itertools.pairwise(edges)
    )


def _complement_range(one: NumberRange) -> NumberSet:
    found: list[NumberRange] = []
    if one.low is not None:
        found.append(NumberRange(high=one.low, is_high_open=not one.is_low_open))
    if one.high is not None:
        found.append(NumberRange(low=one.high, is_low_open=not one.is_high_open))
    inside = replace(one, step=None, avoided=frozenset())
    if one.step is not None:
        found.append(replace(inside, avoided=frozenset({one.step})))
    found += [replace(inside, step=avoided) for avoided in sorted(one.avoided)]
    return tuple(found)


def unite_numbers(one: NumberSet, other: NumberSet) -> NumberSet:
    """Numbers in either set."""
    return ALL_NUMBERS if ALL_NUMBERS in (one, other) else tuple(dict.fromkeys(one + other))
