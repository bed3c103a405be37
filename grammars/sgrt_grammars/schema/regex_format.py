"""The format `regex`: texts that are patterns, for ECMA-262 (with its `u` flag) and for Python's `re` alike.

Which texts are patterns is no regular question (groups nest, references count groups), so the format is known from two
sides. `patterns` are texts that both dialects read: groups nested to a bounded depth, without names, references and
Unicode properties, look-around neither in groups nor around any, and no character that one of the two wants escaped
(a lone brace or bracket). `possible_patterns` leaves out only what no dialect reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import pairwise

from sgrt_grammars.constraint import RegexDialect
from sgrt_grammars.regex.charset import LAST, CharSet
from sgrt_grammars.regex.compile import pattern_language
from sgrt_grammars.regex.language import NOTHING, Language, chain, characters, either, repeat, word

MAX_GROUPS = 4
"""How deep groups may nest."""

_DIGIT = characters(CharSet.between("0", "9"))
_HEX = characters(CharSet.of("0123456789abcdefABCDEF"))
# A range leads from one block of characters to a later one, or lies within the digits or one case of ASCII letters.
_BORDERS = (
    0x20, ord("0"), ord(":"), ord("A"), ord("["), ord("a"), ord("{"), 0x80, 0xA0, 0xC0, 0xE0, 0xF0, 0x100, 0x180, 0x250, 0x370,
    0x391, 0x3B1, 0x3C0, 0x3CA, 0x410, 0x420, 0x430, 0x440, 0x450, 0x530, 0x590, 0x600, 0x700, 0x900, 0xE00, 0x1100, 0x1E00, 0x2000, 0x2E80,
    0x3041, 0x3080, 0x30A1, 0x30F0, 0x3400, 0x4E00, 0x9000, 0xAC00, 0xD000, 0xE000, 0xF900, 0xFF00, 0x10000, 0x1F300, 0x20000,
)  # fmt: skip
_ORDERED = ("0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@cache
def patterns() -> Language:
    """Texts that are surely patterns."""
    parts = _parts(_single())
    for _ in range(MAX_GROUPS):
        group = chain(_written(r"\((?:\?:)?"), repeat(parts, 0, None), word(")"))
        parts = _parts(either(_single(), group))
    return repeat(either(parts, _look_around()), 0, None)


def _parts(single: Language) -> Language:
    """One step of a pattern that is no look-around."""
    return either(_edge(), _repeated(single))


@cache
def possible_patterns() -> Language:
    """Texts that may be patterns: no quantifier begins them, and no lone backslash ends them."""
    return _written(r"(?s:(?![*+?])(?:[^\\]|\\.)*)")


def _written(pattern: str) -> Language:
    return pattern_language(pattern, RegexDialect.PYTHON, is_full=True, pointer="", keyword="format")


@cache
def _edge() -> Language:
    """What cannot be repeated: anchors, word boundaries, and the bar between alternatives."""
    return _written(r"[\^$|]|\\[bB]")


@cache
def _look_around() -> Language:
    """Look-ahead, and look-behind over single characters, which Python wants of one width."""
    ahead = repeat(_parts(_single()), 0, None)
    behind = repeat(_single(), 0, None)
    options = either(chain(_written("[=!]"), ahead), chain(_written("<[=!]"), behind))
    return chain(word("(?"), options, word(")"))


def _repeated(body: Language) -> Language:
    """The body, and perhaps a quantifier (greedy or lazy)."""
    quantifier = either(_written("[*+?]"), chain(word("{"), _counts(), word("}")))
    return chain(body, repeat(chain(quantifier, repeat(word("?"), 0, 1)), 0, 1))


@cache
def _counts() -> Language:
    """`m`, `m,` and `m,n` with `m <= n`; of three and more digits, the first of `n` is the greater one."""
    options = [
        _written("(?:0|[1-9][0-9]{0,3}),?|(?:0|[1-9][0-9]?),[1-9][0-9]{2,3}|[1-9][0-9]{2},[1-9][0-9]{3}")
    ]
    digits = "0123456789"
    for place, digit in enumerate(digits):
        ten, above = digit.strip("0"), characters(CharSet.of(digits[place + 1 :]))
        options += [
            chain(word(f"{ten}{unit},{ten}"), characters(CharSet.between(unit, "9"))) for unit in digits
        ]
        options.append(chain(word(ten), _DIGIT, word(","), above, _DIGIT))
        if ten:
            options.append(chain(word(ten), _DIGIT, _DIGIT, word(","), above, _DIGIT, _DIGIT))
    return either(*options)


@cache
def _single() -> Language:
    """What stands for exactly one character."""
    return either(_written(r"[^\^$\\.*+?()\[\]{}|]|\.|\\[\^$\\.*+?()\[\]{}|/]"), _escape(), _class())


@cache
def _escape() -> Language:
    """Escapes of the same meaning within classes and outside of them."""
    unit = chain(word("u"), _unit(_one_of(range(16))))
    return chain(word("\\"), either(_written("[dDwWsSnrtfv]|x[0-9A-Fa-f]{2}"), unit))


@cache
def _class() -> Language:
    """A class of characters. Hyphens stand at its edges and after ranges, carets never first."""
    plain = _written(r"[^\\\]\[^-]|\\[\^$\\.*+?()\[\]{}|/b-]")
    item = either(plain, _escape(), chain(_range(), repeat(word("-"), 0, 1)))
    start = either(_written(r"-|\^-|\^\^"), chain(repeat(word("^"), 0, 1), item))
    return chain(
        word("["), start, repeat(either(item, word("^")), 0, None), repeat(word("-"), 0, 1), word("]")
    )


@cache
def _range() -> Language:
    """A range within a class whose ends are in order."""
    options = [
        _from_to(CharSet.of(first), CharSet.between(first, ordered[-1]))
        for ordered in _ORDERED
        for first in ordered
    ]
    for low, border in pairwise(_BORDERS):
        options.append(
            _from_to(CharSet.from_ranges([(low, border - 1)]), CharSet.from_ranges([(border, LAST)]))
        )
    beyond_ascii = either(_written("x[89A-Fa-f][0-9A-Fa-f]"), chain(word("u"), _unit(_one_of(range(1, 16)))))
    options.append(chain(_written("[ -,./0-9:-Z_`a-z{|}~]"), word("-\\"), beyond_ascii))
    return either(*options, *_escaped_ranges())


def _from_to(starts: CharSet, ends: CharSet) -> Language:
    starts -= CharSet.of("\\[]-^")
    ends -= CharSet.of("\\[]-")
    return chain(characters(starts), word("-"), characters(ends)) if starts else NOTHING


def _escaped_ranges() -> list[Language]:
    r"""Ranges between two escapes of one kind: of `\xHH` in order below 0x20, else with a greater first digit."""
    options: list[Language] = []
    for place in range(16):
        digit, above = _one_of(range(place, place + 1)), _one_of(range(place + 1, 16))
        for lead in ("\\x", "\\u00"):
            options.append(
                chain(word(lead), characters(digit), _HEX, word(f"-{lead}"), characters(above), _HEX)
            )
        options.append(chain(word("\\u"), _unit(digit), word("-\\u"), _unit(above)))
        at_least = characters(_one_of(range(place, 16)))
        options += [
            chain(word(rf"\x{lead}"), characters(digit), word(rf"-\x{lead}"), at_least) for lead in (0, 1)
        ]
    return options


def _unit(first: CharSet) -> Language:
    """Four hexadecimal digits that begin with one of a set, and are no half of a surrogate pair."""
    plain, high = first - CharSet.of("dD"), first & CharSet.of("dD")
    low_half = characters(CharSet.between("0", "7"))
    return chain(either(chain(characters(plain), _HEX), chain(characters(high), low_half)), _HEX, _HEX)


def _one_of(digits: Iterable[int]) -> CharSet:
    """Some hexadecimal digits, in either case."""
    return CharSet.of(spelled for digit in digits for spelled in f"{digit:x}{digit:X}")
