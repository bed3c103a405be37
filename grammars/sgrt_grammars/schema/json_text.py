"""How JSON is written: whitespace, strings, and values without structure.

Strings that are bounded in length alone, or whose pattern leaves nearly all characters open, may use every legal
escape. Strings of particular characters (finite sets, narrow patterns, formats, keys) have one spelling: a
character stands for itself wherever JSON allows it, else for its short escape, else for `\\u00xx`.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache

from sgrt_grammars.constraint import Whitespace
from sgrt_grammars.expression import (
    EMPTY_TEXT,
    Alternation,
    ByteSet,
    Concatenation,
    Expression,
    Literal,
    Repetition,
)
from sgrt_grammars.regex.charset import EVERY_CHARACTER, CharSet, Range
from sgrt_grammars.regex.language import (
    ANY_TEXT,
    Between,
    Both,
    Chain,
    Chars,
    Either,
    Language,
    Outside,
    Repeat,
    Words,
    innermost,
)
from sgrt_grammars.regex.spelling import alternation, digit_options, spell, utf8_characters

CONTROLS = CharSet.from_ranges([(0, 0x1F)])
ESCAPED = CONTROLS | CharSet.of('"\\')
SHORT_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}

MAX_SPACES = 4
MAX_INDENT_SPACES = 64
MAX_INDENT_TABS = 16


@cache
def space(whitespace: Whitespace) -> Expression:
    """Insignificant whitespace at one place: none, or (FLEXIBLE) a few spaces or a line break and an indent."""
    if whitespace is Whitespace.COMPACT:
        return EMPTY_TEXT
    blank, tab = Literal(b" "), Literal(b"\t")
    line_break = Alternation((Literal(b"\n"), Literal(b"\r\n")))
    indent = Alternation((Repetition(blank, 0, MAX_INDENT_SPACES), Repetition(tab, 1, MAX_INDENT_TABS)))
    return Alternation((Repetition(blank, 0, MAX_SPACES), Concatenation((line_break, indent))))


@cache
def colon(whitespace: Whitespace) -> Expression:
    """The colon between a key and its value."""
    if whitespace is Whitespace.COMPACT:
        return Literal(b":")
    return Concatenation((Repetition(Literal(b" "), 0, 1), Literal(b":"), space(whitespace)))


@cache
def comma(whitespace: Whitespace) -> Expression:
    """The comma between two items or members."""
    if whitespace is Whitespace.COMPACT:
        return Literal(b",")
    return Concatenation((space(whitespace), Literal(b","), space(whitespace)))


class CanonicalSpelling:
    """One spelling for every character."""

    def characters(self, members: CharSet) -> Expression:
        """One character of the set."""
        return _canonical_characters(members)

    def text(self, text: str) -> bytes:
        """A fixed text, without quotes."""
        return quoted(text)[1:-1]

    def any_text(self) -> Expression:
        """Any text."""
        return Repetition(_canonical_characters(EVERY_CHARACTER), 0, None)


class FreeSpelling:
    """Every legal spelling of every character."""

    def characters(self, members: CharSet) -> Expression:
        """One character of the set."""
        return _free_characters(members)

    def text(self, text: str) -> bytes:
        """Only the empty text has one spelling alone."""
        assert not text, "a fixed text is spelled canonically"
        return b""

    def any_text(self) -> Expression:
        """Any text."""
        return Repetition(_free_characters(EVERY_CHARACTER), 0, None)


CANONICAL = CanonicalSpelling()
FREE = FreeSpelling()


def quoted(text: str) -> bytes:
    """The canonical spelling of a string, with its quotes."""
    return json.dumps(text, ensure_ascii=False).encode()


@cache
def _canonical_characters(members: CharSet) -> Expression:
    escaped = [chr(code) for low, high in (members & ESCAPED).ranges for code in range(low, high + 1)]
    options = [utf8_characters(members - ESCAPED)] if members - ESCAPED else []
    tails = sorted(quoted(character)[2:-1] for character in escaped)
    short = [tail for tail in tails if len(tail) == 1]
    long = [tail for tail in tails if len(tail) > 1]
    after: list[Expression] = [ByteSet(sum(1 << tail[0] for tail in short))] if short else []
    if long:
        after.append(
            _unicode_escapes(tuple((int(tail[1:], 16), int(tail[1:], 16)) for tail in long), upper=False)
        )
    if after:
        options.append(Concatenation((Literal(b"\\"), alternation(after))))
    return alternation(options)


@cache
def _free_characters(members: CharSet) -> Expression:
    raw = members - ESCAPED
    options = [utf8_characters(raw)] if raw else []
    short = [letter for character, letter in SHORT_ESCAPES.items() if character in members]
    after: list[Expression] = [ByteSet(sum(1 << ord(letter) for letter in short))] if short else []
    basic = members & CharSet.from_ranges([(0, 0xFFFF)])
    if basic:
        after.append(_unicode_escapes(basic.ranges, upper=True))
    after += _surrogate_pairs((members - CharSet.from_ranges([(0, 0xFFFF)])).ranges)
    if after:
        options.append(Concatenation((Literal(b"\\"), alternation(after))))
    return alternation(options)


def _unicode_escapes(ranges: tuple[Range, ...], *, upper: bool) -> Expression:
    """`uXXXX` of code units."""
    options = digit_options(
        ranges,
        3,
        bits=4,
        top=lambda mask: _hexadecimal(mask, upper),
        below=lambda mask: _hexadecimal(mask, upper),
    )
    return Concatenation((Literal(b"u"), alternation(options)))


def _hexadecimal(mask: int, upper: bool) -> ByteSet:
    digits = "0123456789abcdef"
    chosen = [digit for value, digit in enumerate(digits) if mask >> value & 1]
    spelled = {*chosen, *(digit.upper() for digit in chosen)} if upper else set(chosen)
    return ByteSet(sum(1 << ord(digit) for digit in spelled))


def _surrogate_pairs(ranges: tuple[Range, ...]) -> list[Expression]:
    """Pairs of escapes for characters beyond U+FFFF: high and low halves of ten bits each."""
    if not ranges:
        return []
    shifted = tuple((low - 0x10000, high - 0x10000) for low, high in ranges)
    found: list[Expression] = []
    for tail, heads in _halves(shifted).items():
        high_units = tuple((0xD800 + low, 0xD800 + high) for low, high in heads)
        low_units = tuple((0xDC00 + low, 0xDC00 + high) for low, high in tail)
        pair = (
            _unicode_escapes(high_units, upper=True),
            Literal(b"\\"),
            _unicode_escapes(low_units, upper=True),
        )
        found.append(Concatenation(pair))
    return found


def _halves(ranges: tuple[Range, ...]) -> dict[tuple[Range, ...], list[Range]]:
    """Numbers of twenty bits by the ranges of their low ten bits."""
    lows: dict[int, list[Range]] = {}
    groups: dict[tuple[Range, ...], list[Range]] = {}
    whole = ((0, 0x3FF),)
    for low, high in ranges:
        first, last = low >> 10, high >> 10
        for head in {first, last}:
            lows.setdefault(head, []).append((max(low - (head << 10), 0), min(high - (head << 10), 0x3FF)))
        if last > first + 1:
            groups.setdefault(whole, []).append((first + 1, last - 1))
    for head, tail in sorted(lows.items()):
        groups.setdefault(tuple(sorted(tail)), []).append((head, head))
    return groups


def _is_open(language: Language) -> bool:
    """Whether nearly every character may stand at every place of the language."""
    match language:
        case Chars(members):
            return members.is_wide
        case Words(texts):
            return texts <= {""}
        case Chain(parts) | Both(parts):
            return all(_is_open(part) for part in parts)
        case Either(options):
            return all(_is_open(option) for option in options)
        case Repeat(body):
            return _is_open(body)
        case Outside(body):
            return _is_open(body)
        case Between(_, inner):
            return _is_open(inner)


@lru_cache(maxsize=1024)
def string(language: Language) -> Expression:
    """JSON strings whose decoded text is in the language."""
    language = innermost(language)
    spelling = FREE if _is_open(language) else CANONICAL
    if isinstance(language, Words):
        return spell(Words(frozenset(f'"{text}"' for text in language.texts)), _WholeSpelling())
    return Concatenation((Literal(b'"'), spell(language, spelling), Literal(b'"')))


class _WholeSpelling(CanonicalSpelling):
    """Texts that come with their quotes."""

    def text(self, text: str) -> bytes:
        return quoted(text[1:-1])


@lru_cache(maxsize=1024)
def key(language: Language) -> Expression:
    """Keys in their one spelling, so that equal keys are equal bytes."""
    return Concatenation((Literal(b'"'), spell(innermost(language), CANONICAL), Literal(b'"')))


ANY_STRING: Expression = string(ANY_TEXT)
ANY_CHARACTER: Expression = FREE.characters(EVERY_CHARACTER)
ANY_KEY_TEXT: Expression = CANONICAL.any_text()
