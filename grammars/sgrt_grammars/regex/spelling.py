"""From languages of characters to expressions over bytes, by a way of spelling characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Protocol

from sgrt_grammars.expression import (
    NOTHING,
    Alternation,
    ByteSet,
    Complement,
    Concatenation,
    Expression,
    Intersection,
    Literal,
    Repetition,
)
from sgrt_grammars.regex.charset import CharSet, Range
from sgrt_grammars.regex.language import (
    Between,
    Both,
    Chain,
    Chars,
    Either,
    Language,
    Outside,
    Repeat,
    Words,
)


class Spelling(Protocol):
    """How characters are written in bytes."""

    def characters(self, members: CharSet) -> Expression:
        """Every way to write one character of the set."""
        ...

    def text(self, text: str) -> bytes:
        """The way to write a fixed text."""
        ...

    def any_text(self) -> Expression:
        """Every way to write any text: what complements are taken in."""
        ...


def spell(language: Language, spelling: Spelling) -> Expression:
    """The expression of all ways to write the texts of a language. Parts that it shares are written once."""
    return _spelled(language, spelling, {})


def _spelled(language: Language, spelling: Spelling, known: dict[int, Expression]) -> Expression:
    """`known`: what has been written, by the identity of its language, which the whole keeps alive."""
    found = known.get(id(language))
    if found is None:
        found = known[id(language)] = _written(language, spelling, known)
    return found


def _written(language: Language, spelling: Spelling, known: dict[int, Expression]) -> Expression:
    match language:
        case Chars(members):
            return spelling.characters(members)
        case Words(texts):
            return literals(spelling.text(text) for text in sorted(texts))
        case Chain(parts):
            return Concatenation(tuple(_spelled(part, spelling, known) for part in parts))
        case Either(options):
            return Alternation(tuple(_spelled(option, spelling, known) for option in options))
        case Repeat(body, minimum, maximum):
            return Repetition(_spelled(body, spelling, known), minimum, maximum)
        case Both(parts):
            return Intersection(tuple(_spelled(part, spelling, known) for part in parts))
        case Outside(body):
            return Intersection((spelling.any_text(), Complement(_spelled(body, spelling, known))))
        case Between():
            raise AssertionError("what is known from two sides is decided before it is spelled")


def literals(texts: Iterable[bytes]) -> Expression:
    """Any of the byte strings. (The automaton shares their common beginnings.)."""
    return alternation([Literal(one) for one in sorted(set(texts))])


def alternation(options: Sequence[Expression]) -> Expression:
    """Any of the options; the single option itself when there is one."""
    if not options:
        return NOTHING
    return options[0] if len(options) == 1 else Alternation(tuple(options))


class Utf8Spelling:
    """Characters as their UTF-8 bytes."""

    def characters(self, members: CharSet) -> Expression:
        """One character of the set in UTF-8."""
        return utf8_characters(members)

    def text(self, text: str) -> bytes:
        """The text in UTF-8."""
        return text.encode()

    def any_text(self) -> Expression:
        """Any valid UTF-8."""
        return ANY_UTF8


# (first code point, last, lead byte of code point 0, number of continuation bytes), one row per length.
_UTF8_LENGTHS = (
    (0x0, 0x7F, 0x00, 0),
    (0x80, 0x7FF, 0xC0, 1),
    (0x800, 0xFFFF, 0xE0, 2),
    (0x10000, 0x10FFFF, 0xF0, 3),
)


@cache
def utf8_characters(members: CharSet) -> Expression:
    """One character of the set in UTF-8, branching on every byte at most once."""
    options: list[Expression] = []
    for first, last, lead, num_continuations in _UTF8_LENGTHS:
        ranges = tuple(
            (max(low, first), min(high, last))
            for low, high in members.ranges
            if low <= last and high >= first
        )
        if ranges:
            options += digit_options(
                ranges,
                num_continuations,
                bits=6,
                top=lambda mask, lead=lead: ByteSet(mask << lead),  # type: ignore[misc]  # bound as a default
                below=lambda mask: ByteSet(mask << 0x80),
            )
    return alternation(options)


Encode = Callable[[int], Expression]


def digit_options(
    ranges: tuple[Range, ...], num_lower: int, *, bits: int, top: Encode, below: Encode
) -> list[Expression]:
    """Numbers of the ranges as `1 + num_lower` digits of `bits` bits: one option for each kind of tail.

    `top` and `below` write a set of digits (bit `d` of the mask says whether digit `d` belongs).
    """
    if num_lower == 0:
        mask = 0
        for low, high in ranges:
            mask |= (1 << high + 1) - (1 << low)
        return [top(mask)]
    groups = _by_tail(ranges, bits * num_lower)
    return [
        Concatenation(
            (top(mask), alternation(digit_options(tail, num_lower - 1, bits=bits, top=below, below=below)))
        )
        for tail, mask in groups.items()
    ]


def _by_tail(ranges: tuple[Range, ...], num_bits: int) -> dict[tuple[Range, ...], int]:
    """Which top digits (as a mask) are followed by which ranges of the low `num_bits` bits."""
    size = 1 << num_bits
    whole = ((0, size - 1),)
    partial: dict[int, list[Range]] = {}
    full = 0
    for low, high in ranges:
        first, last = low >> num_bits, high >> num_bits
        for digit in {first, last}:
            piece = (max(low - digit * size, 0), min(high - digit * size, size - 1))
            partial.setdefault(digit, []).append(piece)
        if last > first + 1:
            full |= (1 << last) - (1 << first + 1)
    groups: dict[tuple[Range, ...], int] = {whole: full} if full else {}
    for digit, pieces in sorted(partial.items()):
        tail = tuple(sorted(pieces))
        groups[tail] = groups.get(tail, 0) | 1 << digit
    return groups


UTF8 = Utf8Spelling()
ANY_UTF8: Expression = Repetition(utf8_characters(~CharSet(())), 0, None)
