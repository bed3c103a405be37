"""How sets of numbers are written in decimal.

Numbers between bounds are written in plain decimal, or with an exponent after one digit before the point;
multiples are written in plain decimal. Numbers without bounds have every JSON form, as far as they stay
finite in double precision, and integers may be written `1.0` or `1e2`; in the canonical spelling integers are
digits alone, and numbers without bounds are written as those between bounds. Every run of digits is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

from sgrt_grammars.expression import (
    NOTHING,
    Alternation,
    ByteSet,
    Concatenation,
    Expression,
    Literal,
    Repetition,
)
from sgrt_grammars.regex.spelling import alternation, literals
from sgrt_grammars.schema.decimal_text import (
    DIGIT,
    FRACTION,
    MAX_DIGITS,
    MAX_ZEROS,
    ZERO,
    Decimal,
    Magnitudes,
    decimal_text,
    digits,
)
from sgrt_grammars.schema.numbers import ALL_NUMBERS, INTEGERS, NumberRange, NumberSet

MAX_EXPONENT = 307

_MINUS = Repetition(Literal(b"-"), 0, 1)
_EXPONENT_SIGN = ByteSet(1 << ord("e") | 1 << ord("E"))
_SIGN = Repetition(ByteSet(1 << ord("+") | 1 << ord("-")), 0, 1)
_INTEGER_PART = Alternation((ZERO, Concatenation((digits(1, 9), Repetition(DIGIT, 0, MAX_DIGITS - 1)))))
_NO_FRACTION = Repetition(Concatenation((Literal(b"."), Repetition(ZERO, 1, MAX_ZEROS))), 0, 1)
_SHORT_EXPONENT = Concatenation((_EXPONENT_SIGN, _SIGN, Repetition(ZERO, 0, 1), Repetition(DIGIT, 1, 2)))


def number(numbers: NumberSet, *, is_canonical: bool, is_whole: bool = False) -> Expression:
    """All numbers of a set, as JSON text. `is_whole`: integers are digits alone, as in the canonical spelling."""
    is_whole |= is_canonical
    if numbers == ALL_NUMBERS:
        return _CANONICAL_NUMBER if is_canonical else _ANY_NUMBER
    if numbers == INTEGERS:
        return _CANONICAL_INTEGER if is_whole else _ANY_INTEGER
    points = [one.value for one in numbers if one.value is not None]
    ranges = [_signed(one, is_canonical, is_whole) for one in numbers if one.value is None]
    spelled = [spelling for value in points for spelling in _spellings(value, is_canonical)]
    return alternation([*([literals(spelled)] if spelled else []), *ranges])


def _spellings(value: Fraction, is_canonical: bool) -> Iterable[bytes]:
    """A number that is spelled alone: plain, a float also as Python writes it, an integer also with `.0`.

    In the canonical spelling, integers are digits alone.
    """
    text = decimal_text(abs(value))
    if is_canonical and value.denominator == 1:
        return [f"-{text}".encode() if value < 0 else text.encode()]
    texts = {text} if value.denominator > 1 else {text, f"{text}.0"}
    if abs(value) <= 10**308:
        short = repr(float(abs(value)))
        if "e" in short and Fraction(short) == abs(value):
            texts.add(short)
    signs = ("", "-") if value == 0 else ("-",) if value < 0 else ("",)
    return sorted(f"{sign}{one}".encode() for sign in signs for one in texts)


@lru_cache(maxsize=1024)
def _signed(one: NumberRange, is_canonical: bool, is_whole: bool) -> Expression:
    """A range of numbers as its magnitudes with and without a minus sign."""
    options: list[Expression] = []
    is_whole = is_whole and one.step is not None and one.step.denominator == 1
    zero = Fraction(0)
    if one.high is None or one.high >= 0:
        is_cut = one.low is None or one.low < 0
        low, is_open = (zero, False) if is_cut else (one.low or zero, one.is_low_open)
        options.append(
            _magnitudes(
                Magnitudes(low, is_open, one.high, one.is_high_open, one.step, one.avoided, is_whole),
                is_canonical,
            )
        )
    if one.low is None or one.low <= 0:
        is_cut = one.high is None or one.high > 0
        low, is_open = (zero, False) if is_cut else (-(one.high or zero), one.is_high_open)
        high = None if one.low is None else -one.low
        is_open |= is_whole and low == 0  # no minus zero
        mirrored = Magnitudes(low, is_open, high, one.is_low_open, one.step, one.avoided, is_whole)
        options.append(Concatenation((Literal(b"-"), _magnitudes(mirrored, is_canonical))))
    return alternation(options)


def _magnitudes(one: Magnitudes, is_canonical: bool) -> Expression:
    is_plain = one.step is None and not one.avoided
    if is_plain and one.high is None and one.low == 0 and not one.is_low_open:
        return _CANONICAL_MAGNITUDE if is_canonical else _ANY_MAGNITUDE
    options = [Decimal(one).start()]
    if is_plain:
        options += _scientific(one)
    return alternation(options)


def _scientific(one: Magnitudes) -> list[Expression]:
    """One digit, a fraction and an exponent: the exponents strictly between the bounds', and at them."""
    low_exponent, low_mantissa = _normalized(one.low) if one.low else (-MAX_EXPONENT - 1, Fraction(1))
    high_exponent, high_mantissa = _normalized(one.high) if one.high else (MAX_EXPONENT + 1, Fraction(1))
    if one.high == 0:
        return []
    ten = Fraction(10)
    found: list[tuple[Expression, int, int]] = []
    any_mantissa = Concatenation((digits(1, 9), Repetition(FRACTION, 0, 1)))
    found.append((any_mantissa, low_exponent + 1, high_exponent - 1))
    if one.low:
        is_last = one.high is not None and low_exponent == high_exponent
        top = (high_mantissa, one.is_high_open) if is_last else (ten, True)
        found.append((_mantissas(low_mantissa, one.is_low_open, *top), low_exponent, low_exponent))
    if one.high is not None and low_exponent < high_exponent:
        found.append(
            (_mantissas(Fraction(1), False, high_mantissa, one.is_high_open), high_exponent, high_exponent)
        )
    return [
        Concatenation(
            (mantissa, _EXPONENT_SIGN, _exponents(max(low, -MAX_EXPONENT), min(high, MAX_EXPONENT)))
        )
        for mantissa, low, high in found
        if max(low, -MAX_EXPONENT) <= min(high, MAX_EXPONENT)
    ]


def _mantissas(low: Fraction, is_low_open: bool, high: Fraction, is_high_open: bool) -> Expression:
    if low > high or (low == high and (is_low_open or is_high_open)):
        return NOTHING
    return Decimal(Magnitudes(low, is_low_open, high, is_high_open)).start()


def _normalized(value: Fraction) -> tuple[int, Fraction]:
    """(exponent, mantissa of one digit before the point) of a positive number."""
    whole, _, fraction = decimal_text(value).partition(".")
    exponent = len(whole) - 1 if whole != "0" else len(fraction.lstrip("0")) - len(fraction) - 1
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
    single = Concatenation((Repetition(ZERO, 0, 1), digits(low, min(high, 9))))
    options: list[Expression] = [single] if low <= 9 else []
    for length in (2, 3):
        first, last = max(low, 10 ** (length - 1)), min(high, 10**length - 1)
        if first <= last:
            options += _same_length(str(first), str(last))
    return alternation(options)


def _same_length(low: str, high: str) -> list[Expression]:
    """Numbers of equally many digits from `low` to `high`."""
    if len(low) == 1:
        return [digits(int(low), int(high))]
    first, last, rest = int(low[0]), int(high[0]), len(low) - 1
    if first == last:
        return [Concatenation((digits(first, first), alternation(_same_length(low[1:], high[1:]))))]
    options: list[Expression] = [
        Concatenation((digits(first, first), alternation(_same_length(low[1:], "9" * rest)))),
        Concatenation((digits(last, last), alternation(_same_length("0" * rest, high[1:])))),
    ]
    if first + 1 < last:
        options.append(Concatenation((digits(first + 1, last - 1), Repetition(DIGIT, rest, rest))))
    return options


_ANY_MAGNITUDE: Expression = Alternation(
    (
        Concatenation((_INTEGER_PART, Repetition(FRACTION, 0, 1), Repetition(_SHORT_EXPONENT, 0, 1))),
        Concatenation(
            (
                digits(0, 9),
                Repetition(FRACTION, 0, 1),
                _EXPONENT_SIGN,
                _exponents(-MAX_EXPONENT, MAX_EXPONENT),
            )
        ),
    )
)
_CANONICAL_MAGNITUDE: Expression = Alternation(
    (
        Concatenation((_INTEGER_PART, Repetition(FRACTION, 0, 1))),
        Concatenation(
            (
                digits(1, 9),
                Repetition(FRACTION, 0, 1),
                Literal(b"e"),
                _exponents(-MAX_EXPONENT, MAX_EXPONENT),
            )
        ),
    )
)
_CANONICAL_NUMBER: Expression = Concatenation((_MINUS, _CANONICAL_MAGNITUDE))
_CANONICAL_INTEGER: Expression = Alternation(
    (ZERO, Concatenation((_MINUS, digits(1, 9), Repetition(DIGIT, 0, MAX_DIGITS - 1))))
)
_ANY_NUMBER: Expression = Concatenation((_MINUS, _ANY_MAGNITUDE))
_ANY_INTEGER: Expression = Concatenation(
    (
        _MINUS,
        _INTEGER_PART,
        _NO_FRACTION,
        Repetition(
            Concatenation((_EXPONENT_SIGN, Repetition(Literal(b"+"), 0, 1), Repetition(DIGIT, 1, 2))), 0, 1
        ),
    )
)
