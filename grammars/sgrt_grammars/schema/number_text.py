"""How sets of numbers are written in decimal.

Numbers without bounds have every JSON form, as far as they stay finite in double precision; integers may be
written `1.0` or `1e2`. Numbers between bounds are written in plain decimal, or with an exponent after one
digit before the point; multiples are written in plain decimal. Every run of digits is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.expression import (
    EMPTY_TEXT,
    NOTHING,
    Alternation,
    ByteSet,
    Concatenation,
    Deferred,
    Expression,
    Literal,
    Repetition,
)
from sgrt_grammars.regex.spelling import alternation, literals
from sgrt_grammars.schema.numbers import ALL_NUMBERS, INTEGERS, NumberRange, NumberSet

MAX_DIGITS = 200
MAX_ZEROS = 16
MAX_EXPONENT = 307
MAX_DIVISOR = 10_000


def _digits(low: int, high: int) -> ByteSet:
    """One digit from `low` to `high`."""
    return ByteSet((1 << high + 0x31) - (1 << low + 0x30)) if low <= high else ByteSet(0)


_DIGIT = _digits(0, 9)
_ZERO = Literal(b"0")
_MINUS = Repetition(Literal(b"-"), 0, 1)
_EXPONENT_SIGN = ByteSet(1 << ord("e") | 1 << ord("E"))
_SIGN = Repetition(ByteSet(1 << ord("+") | 1 << ord("-")), 0, 1)
_INTEGER_PART = Alternation((_ZERO, Concatenation((_digits(1, 9), Repetition(_DIGIT, 0, MAX_DIGITS - 1)))))
_FRACTION = Concatenation((Literal(b"."), Repetition(_DIGIT, 1, MAX_DIGITS)))
_ANY_CONTINUATION = Concatenation((Repetition(_DIGIT, 0, MAX_DIGITS), Repetition(_FRACTION, 0, 1)))
_NO_FRACTION = Repetition(Concatenation((Literal(b"."), Repetition(_ZERO, 1, MAX_ZEROS))), 0, 1)
_SHORT_EXPONENT = Concatenation((_EXPONENT_SIGN, _SIGN, Repetition(_ZERO, 0, 1), Repetition(_DIGIT, 1, 2)))


def number(numbers: NumberSet) -> Expression:
    """All numbers of a set, as JSON text."""
    if numbers == ALL_NUMBERS:
        return _ANY_NUMBER
    if numbers == INTEGERS:
        return _ANY_INTEGER
    points = [one.value for one in numbers if one.value is not None]
    ranges = [_signed(one) for one in numbers if one.value is None]
    spelled = [spelling for value in points for spelling in _spellings(value)]
    return alternation([*([literals(spelled)] if spelled else []), *ranges])


def _spellings(value: Fraction) -> Iterable[bytes]:
    """A number that is spelled alone: plain, an integer also with `.0`, a float also as Python writes it."""
    text = decimal_text(abs(value))
    texts = {text} if value.denominator > 1 else {text, f"{text}.0"}
    if abs(value) < 10**300:
        short = repr(float(abs(value)))
        if "e" in short and Fraction(short) == abs(value):
            texts.add(short)
    signs = ("", "-") if value == 0 else ("-",) if value < 0 else ("",)
    return sorted(f"{sign}{one}".encode() for sign in signs for one in texts)


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


@lru_cache(maxsize=1024)
def _signed(one: NumberRange) -> Expression:
    """A range of numbers as its magnitudes with and without a minus sign."""
    options: list[Expression] = []
    zero = Fraction(0)
    if one.high is None or one.high >= 0:
        is_cut = one.low is None or one.low < 0
        low, is_open = (zero, False) if is_cut else (one.low or zero, one.is_low_open)
        options.append(_magnitudes(_Magnitudes(low, is_open, one.high, one.is_high_open, one.step, one.avoided)))
    if one.low is None or one.low <= 0:
        is_cut = one.high is None or one.high > 0
        low, is_open = (zero, False) if is_cut else (-(one.high or zero), one.is_high_open)
        high = None if one.low is None else -one.low
        mirrored = _Magnitudes(low, is_open, high, one.is_low_open, one.step, one.avoided)
        options.append(Concatenation((Literal(b"-"), _magnitudes(mirrored))))
    return alternation(options)


@dataclass(frozen=True, slots=True)
class _Magnitudes:
    """Non-negative numbers of an interval, multiples of `step`, of none of `avoided`."""

    low: Fraction
    is_low_open: bool
    high: Fraction | None
    is_high_open: bool
    step: Fraction | None = None
    avoided: frozenset[Fraction] = frozenset()


def _magnitudes(one: _Magnitudes) -> Expression:
    is_plain = one.step is None and not one.avoided
    if is_plain and one.high is None and one.low == 0 and not one.is_low_open:
        return _ANY_MAGNITUDE
    options = [_Decimal(one).start()]
    if is_plain:
        options += _scientific(one)
    return alternation(options)


class _Decimal:
    """An automaton that reads a plain decimal and compares it with the bounds of a range, digit by digit.

    While it reads, it knows for each bound whether the digits so far are below (-1), equal to (0) or above (1)
    the bound's first digits, and the remainder of the digits by each divisor.
    """

    def __init__(self, magnitudes: _Magnitudes) -> None:
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
        if state.num_digits:
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
            return Repetition(_DIGIT, 1, MAX_DIGITS)
        return alternation(self._branches(self._fraction_groups(state)))

    def _fraction_part(self, state: _State) -> Expression:
        if self._is_free(state):
            return Repetition(_DIGIT, 0, MAX_DIGITS)
        options: list[Expression] = [EMPTY_TEXT] if self._is_accepted(state) else []
        assert state.num_fraction_digits is not None, "a fraction has begun"
        if self._all_that_is_left_is_zeros(state):
            return Repetition(_ZERO, 0, MAX_ZEROS) if options else NOTHING
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
            remainder=None if self._step is None else self._step.fraction_advanced(state.remainder, place, digit),
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
        if below < 0 or above > 0 or (below == 0 and self._is_low_open) or (above == 0 and self._is_high_open):
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
        return remainder * 10 ** max(0, self.scale - place) % self.value == 0


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _scientific(one: _Magnitudes) -> list[Expression]:
    """One digit, a fraction and an exponent: the exponents strictly between the bounds', and at them."""
    low_exponent, low_mantissa = _normalized(one.low) if one.low else (-MAX_EXPONENT - 1, Fraction(1))
    high_exponent, high_mantissa = _normalized(one.high) if one.high else (MAX_EXPONENT + 1, Fraction(1))
    if one.high == 0:
        return []
    ten = Fraction(10)
    found: list[tuple[Expression, int, int]] = []
    any_mantissa = Concatenation((_digits(1, 9), Repetition(_FRACTION, 0, 1)))
    found.append((any_mantissa, low_exponent + 1, high_exponent - 1))
    if one.low:
        is_last = one.high is not None and low_exponent == high_exponent
        top = (high_mantissa, one.is_high_open) if is_last else (ten, True)
        found.append((_mantissas(low_mantissa, one.is_low_open, *top), low_exponent, low_exponent))
    if one.high is not None and low_exponent < high_exponent:
        found.append((_mantissas(Fraction(1), False, high_mantissa, one.is_high_open), high_exponent, high_exponent))
    return [
        Concatenation((mantissa, _EXPONENT_SIGN, _exponents(max(low, -MAX_EXPONENT), min(high, MAX_EXPONENT))))
        for mantissa, low, high in found
        if max(low, -MAX_EXPONENT) <= min(high, MAX_EXPONENT)
    ]


def _mantissas(low: Fraction, is_low_open: bool, high: Fraction, is_high_open: bool) -> Expression:
    if low > high or (low == high and (is_low_open or is_high_open)):
        return NOTHING
    return _Decimal(_Magnitudes(low, is_low_open, high, is_high_open)).start()


def _normalized(value: Fraction) -> tuple[int, Fraction]:
    """(exponent, mantissa of one digit before the point) of a positive number."""
    whole, _, fraction = decimal_text(value).partition(".")
    if whole != "0":
        exponent = len(whole) - 1
    else:
        exponent = len(fraction.lstrip("0")) - len(fraction) - 1
    return exponent, value / Fraction(10) ** exponent


@lru_cache(maxsize=1024)
def _exponents(low: int, high: int) -> Expression:
    """Exponents from `low` to `high`, with an optional plus sign and an optional zero before one digit."""
    options: list[Expression] = []
    if high >= 0:
        plus = Repetition(Literal(b"+"), 0, 1)
        options.append(Concatenation((plus, _padded(max(low, 0), high))))
    if low < 0:
        options.append(Concatenation((Literal(b"-"), _padded(max(1, -high), -low))))
    return alternation(options)


def _padded(low: int, high: int) -> Expression:
    single = Concatenation((Repetition(_ZERO, 0, 1), _digits(low, min(high, 9))))
    options: list[Expression] = [single] if low <= 9 else []
    for length in (2, 3):
        first, last = max(low, 10 ** (length - 1)), min(high, 10**length - 1)
        if first <= last:
            options += _same_length(str(first), str(last))
    return alternation(options)


def _same_length(low: str, high: str) -> list[Expression]:
    """Numbers of equally many digits from `low` to `high`."""
    if len(low) == 1:
        return [_digits(int(low), int(high))]
    first, last, rest = int(low[0]), int(high[0]), len(low) - 1
    if first == last:
        return [Concatenation((_digits(first, first), alternation(_same_length(low[1:], high[1:]))))]
    options: list[Expression] = [
        Concatenation((_digits(first, first), alternation(_same_length(low[1:], "9" * rest)))),
        Concatenation((_digits(last, last), alternation(_same_length("0" * rest, high[1:])))),
    ]
    if first + 1 < last:
        options.append(Concatenation((_digits(first + 1, last - 1), Repetition(_DIGIT, rest, rest))))
    return options


_ANY_MAGNITUDE: Expression = Alternation(
    (
        Concatenation((_INTEGER_PART, Repetition(_FRACTION, 0, 1), Repetition(_SHORT_EXPONENT, 0, 1))),
        Concatenation(
            (
                _digits(0, 9),
                Repetition(_FRACTION, 0, 1),
                _EXPONENT_SIGN,
                _exponents(-MAX_EXPONENT, MAX_EXPONENT),
            )
        ),
    )
)
_ANY_NUMBER: Expression = Concatenation((_MINUS, _ANY_MAGNITUDE))
_ANY_INTEGER: Expression = Concatenation(
    (
        _MINUS,
        _INTEGER_PART,
        _NO_FRACTION,
        Repetition(
            Concatenation((_EXPONENT_SIGN, Repetition(Literal(b"+"), 0, 1), Repetition(_DIGIT, 1, 2))), 0, 1
        ),
    )
)
