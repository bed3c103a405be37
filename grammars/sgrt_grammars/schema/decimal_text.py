"""The automaton of plain decimals: it compares with bounds and takes remainders digit by digit."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.expression import (
    EMPTY_TEXT,
    NOTHING,
    ByteSet,
    Concatenation,
    Deferred,
    Expression,
    Literal,
    Repetition,
)
from sgrt_grammars.regex.spelling import alternation

MAX_DIGITS = 200
"""Digits before and after the point: with an exponent of two digits, all numbers stay finite in double precision."""
MAX_ZEROS = 16
MAX_DIVISOR = 10_000


def digits(low: int, high: int) -> ByteSet:
    """One digit from `low` to `high`."""
    return ByteSet((1 << high + 0x31) - (1 << low + 0x30)) if low <= high else ByteSet(0)


DIGIT = digits(0, 9)
ZERO = Literal(b"0")
FRACTION = Concatenation((Literal(b"."), Repetition(DIGIT, 1, MAX_DIGITS)))
_ANY_CONTINUATION = Concatenation((Repetition(DIGIT, 0, MAX_DIGITS), Repetition(FRACTION, 0, 1)))


def decimal_text(value: Fraction) -> str:
    """A non-negative number with a finite decimal expansion, written out."""
    scale, scaled = _scaled(value)
    digits = str(scaled).rjust(scale + 1, "0")
    return f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits


def _scaled(value: Fraction) -> tuple[int, int]:
    """(number of decimals, the number without its point)."""
    scale, rest = 0, value.denominator
    while rest % 10 == 0:
        rest //= 10
        scale += 1
    while rest > 1:
        assert rest % 2 == 0 or rest % 5 == 0, "numbers of JSON text have finite decimal expansions"
        rest //= 2 if rest % 2 == 0 else 5
        scale += 1
    return scale, value.numerator * 10**scale // value.denominator


@dataclass(frozen=True, slots=True)
class Magnitudes:
    """Non-negative numbers of an interval, multiples of `step`, of none of `avoided`.

    `is_whole`: integers, written without a point.
    """

    low: Fraction
    is_low_open: bool
    high: Fraction | None
    is_high_open: bool
    step: Fraction | None = None
    avoided: frozenset[Fraction] = frozenset()
    is_whole: bool = False


class Decimal:
    """An automaton that reads a plain decimal and compares it with the bounds of a range, digit by digit.

    While it reads, it knows for each bound whether the digits so far are below (-1), equal to (0) or above (1)
    the bound's first digits, and the remainder of the digits by each divisor.
    """

    def __init__(self, magnitudes: Magnitudes) -> None:
        self._key = magnitudes
        self._is_low_open = magnitudes.is_low_open
        self._is_high_open = magnitudes.is_high_open
        self._low = _Bound.of(magnitudes.low)
        self._high = None if magnitudes.high is None else _Bound.of(magnitudes.high)
        self._divisors = [_Divisor.of(one) for one in sorted(magnitudes.avoided)]
        self._step = None if magnitudes.step is None else _Divisor.of(magnitudes.step)

    def start(self) -> Expression:
        """The expression of the whole range."""
        return self._state(_State(others=(0,) * len(self._divisors)))

    def _state(self, state: _State) -> Expression:
        return Deferred(("decimal", self._key, state), partial(self._build, state))

    def _build(self, state: _State) -> Expression:
        if state.num_fraction_digits is None:
            return self._integer_part(state)
        return self._fraction_part(state)

    def _integer_part(self, state: _State) -> Expression:
        is_unbounded = self._high is None and self._step is None and not self._divisors
        if is_unbounded and state.num_digits == self._horizon:
            return _ANY_CONTINUATION
        options: list[Expression] = []
        if state.num_digits and self._is_accepted(self._pointed(state)):
            options.append(EMPTY_TEXT)
        if state.num_digits and not self._key.is_whole:
            pointed = self._pointed(state)
            if not self._is_hopeless(pointed):
                options.append(Concatenation((Literal(b"."), self._some_fraction(pointed))))
        if state.is_zero or state.num_digits >= MAX_DIGITS:
            return alternation(options)
        groups: dict[_State, int] = {}
        for digit in range(10):
            follower = self._with_integer_digit(state, digit)
            if not self._is_too_long(follower):
                groups[follower] = groups.get(follower, 0) | 1 << digit
        return alternation(options + self._branches(groups))

    def _branches(self, groups: dict[_State, int]) -> list[Expression]:
        return [Concatenation((ByteSet(mask << 0x30), self._state(state))) for state, mask in groups.items()]

    def _with_integer_digit(self, state: _State, digit: int) -> _State:
        place = state.num_digits
        return _State(
            num_digits=min(place + 1, self._horizon),
            is_zero=place == 0 and digit == 0,
            below=self._low.compared(state.below, place, digit),
            above=0 if self._high is None else self._high.compared(state.above, place, digit),
            remainder=None if self._step is None else self._step.advanced(state.remainder, digit),
            others=tuple(
                one.advanced(value, digit) for one, value in zip(self._divisors, state.others, strict=True)
            ),
        )

    @property
    def _horizon(self) -> int:
        """From this many integer digits on, a further digit changes no comparison."""
        return max(len(self._low.whole), 0 if self._high is None else len(self._high.whole)) + 1

    def _is_too_long(self, state: _State) -> bool:
        """Whether the integer digits alone are beyond the upper bound already."""
        if self._high is None:
            return False
        length = len(self._high.whole)
        return state.num_digits > length or (state.num_digits == length and state.above > 0)

    def _pointed(self, state: _State) -> _State:
        """The state after the integer digits: comparisons now take their number into account."""
        return _State(
            num_digits=0,
            num_fraction_digits=0,
            below=self._low.after_integer(state.below, state.num_digits),
            above=-1 if self._high is None else self._high.after_integer(state.above, state.num_digits),
            remainder=state.remainder,
            others=state.others,
        )

    def _is_hopeless(self, state: _State) -> bool:
        return state.below < 0 or state.above > 0

    def _some_fraction(self, state: _State) -> Expression:
        """At least one digit after the point."""
        if self._is_free(state):
            return Repetition(DIGIT, 1, MAX_DIGITS)
        return alternation(self._branches(self._fraction_groups(state)))

    def _fraction_part(self, state: _State) -> Expression:
        if self._is_free(state):
            return Repetition(DIGIT, 0, MAX_DIGITS)
        options: list[Expression] = [EMPTY_TEXT] if self._is_accepted(state) else []
        assert state.num_fraction_digits is not None, "a fraction has begun"
        if self._all_that_is_left_is_zeros(state):
            return Repetition(ZERO, 0, MAX_ZEROS) if options else NOTHING
        return alternation(options + self._branches(self._fraction_groups(state)))

    def _is_free(self, state: _State) -> bool:
        return self._step is None and not self._divisors and state.below > 0 and state.above < 0

    def _all_that_is_left_is_zeros(self, state: _State) -> bool:
        place = state.num_fraction_digits or 0
        has_passed = self._step is not None and place >= self._step.scale
        return has_passed and place >= self._fraction_horizon

    @property
    def _fraction_horizon(self) -> int:
        """From this many fraction digits on, the bounds have no digits left but zeros."""
        scales = [divisor.scale for divisor in self._divisors]
        bounds = [len(bound.fraction) for bound in (self._low, self._high) if bound is not None]
        return max([*scales, *bounds, 0 if self._step is None else self._step.scale])

    def _fraction_groups(self, state: _State) -> dict[_State, int]:
        groups: dict[_State, int] = {}
        for digit in range(10):
            follower = self._with_fraction_digit(state, digit)
            if follower is not None and not self._is_hopeless(follower):
                groups[follower] = groups.get(follower, 0) | 1 << digit
        return groups

    def _with_fraction_digit(self, state: _State, digit: int) -> _State | None:
        place = state.num_fraction_digits
        assert place is not None, "a fraction has begun"
        if self._step is not None and place >= self._step.scale and digit:
            return None
        return _State(
            num_fraction_digits=min(place + 1, self._fraction_horizon + 1),
            below=self._low.fraction_compared(state.below, place, digit),
            above=-1 if self._high is None else self._high.fraction_compared(state.above, place, digit),
            remainder=None
            if self._step is None
            else self._step.fraction_advanced(state.remainder, place, digit),
            others=tuple(
                one.fraction_advanced(value, place, digit)
                for one, value in zip(self._divisors, state.others, strict=True)
            ),
        )

    def _is_accepted(self, state: _State) -> bool:
        """Whether the number may end here: the missing digits are zeros."""
        place = state.num_fraction_digits or 0
        below = self._low.at_end(state.below, place)
        above = -1 if self._high is None else self._high.at_end(state.above, place)
        if (
            below < 0
            or above > 0
            or (below == 0 and self._is_low_open)
            or (above == 0 and self._is_high_open)
        ):
            return False
        if self._step is not None and not self._step.divides(state.remainder, place):
            return False
        pairs = zip(self._divisors, state.others, strict=True)
        return not any(one.divides(value, place) for one, value in pairs)


@dataclass(frozen=True, slots=True)
class _State:
    """How far a decimal was read. `num_fraction_digits` is None before the point."""

    num_digits: int = 0
    num_fraction_digits: int | None = None
    is_zero: bool = False
    below: int = 0
    above: int = 0
    remainder: int | None = 0
    others: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class _Bound:
    """A bound as digits before and after the point, without trailing zeros."""

    whole: str
    fraction: str

    @staticmethod
    def of(value: Fraction) -> _Bound:
        whole, _, fraction = decimal_text(value).partition(".")
        return _Bound(whole, fraction.rstrip("0"))

    def compared(self, verdict: int, place: int, digit: int) -> int:
        """The order of the first `place + 1` digits and the bound's, given that of the first `place`."""
        if verdict or place >= len(self.whole):
            return verdict
        return _sign(digit - int(self.whole[place]))

    def after_integer(self, verdict: int, length: int) -> int:
        """The order of the integer part, of `length` digits, and the bound's."""
        return _sign(length - len(self.whole)) or verdict

    def fraction_compared(self, verdict: int, place: int, digit: int) -> int:
        if verdict:
            return verdict
        return _sign(digit - (int(self.fraction[place]) if place < len(self.fraction) else 0))

    def at_end(self, verdict: int, place: int) -> int:
        """The order of the whole number and the bound when no digit follows."""
        return verdict or (-1 if place < len(self.fraction) else 0)


@dataclass(frozen=True, slots=True)
class _Divisor:
    """A divisor as an integer `value` after moving the point by `scale` digits."""

    value: int
    scale: int

    @staticmethod
    def of(step: Fraction) -> _Divisor:
        scale, value = _scaled(step)
        if value > MAX_DIVISOR:
            raise CompileLimitExceeded(
                f"multipleOf of {decimal_text(step)} has more than {MAX_DIVISOR} remainders", limit="divisor"
            )
        return _Divisor(value, scale)

    def advanced(self, remainder: int | None, digit: int) -> int | None:
        return None if remainder is None else (remainder * 10 + digit) % self.value

    def fraction_advanced(self, remainder: int | None, place: int, digit: int) -> int | None:
        """None: a digit beyond the scale is not zero, so that the number is no multiple."""
        if place < self.scale:
            return self.advanced(remainder, digit)
        return None if digit else remainder

    def divides(self, remainder: int | None, place: int) -> bool:
        """Whether the number read so far, `place` digits after the point, is a multiple."""
        if remainder is None:
            return False
        missing: int = 10 ** max(0, self.scale - place)
        return remainder * missing % self.value == 0


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)
