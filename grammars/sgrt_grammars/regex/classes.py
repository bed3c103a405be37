"""Named character classes: the shorthands of both dialects, Unicode properties, and case folding."""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from functools import cache

from sgrt_grammars.regex.charset import EVERY_CHARACTER, CharSet, Range

LINE_FEED = CharSet.of("\n")
ECMA_LINE_TERMINATORS = CharSet.of("\n\r\u2028\u2029")

ASCII_DIGITS = CharSet.between("0", "9")
ASCII_WORD = CharSet.of("_") | ASCII_DIGITS | CharSet.between("a", "z") | CharSet.between("A", "Z")
ASCII_SPACE = CharSet.of(" \t\n\r\f\v")
ECMA_SPACE = CharSet.of(" \t\n\r\f\v\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | CharSet.between(
    "\u2000", "\u200a"
)

# Beyond plane 3 only private use (planes 15, 16), tags and variation selectors (plane 14) are assigned.
_ASSIGNED: tuple[Range, ...] = ((0, 0x3FFFF), (0xE0000, 0xE0FFF))
_SCALARS: tuple[Range, ...] = ((0, 0xD7FF), (0xE000, 0x3FFFF), (0xE0000, 0xE0FFF))
_LAST_CASED = 0x1FFFF


@cache
def python_class(letter: str) -> CharSet:
    r"""The set of Python's `\d`, `\w` or `\s` for texts, as the running Python defines it."""
    ranges: list[Range] = []
    for low, high in _SCALARS:
        codes = array("I", range(low, high + 1))
        text = codes.tobytes().decode("utf-32-le" if sys.byteorder == "little" else "utf-32-be")
        runs = (match.span() for match in re.finditer(rf"\{letter}+", text))
        ranges += [(low + start, low + end - 1) for start, end in runs]
    return CharSet.from_ranges(ranges)


_CATEGORY_NAMES = {
    "letter": "L", "cased_letter": "LC", "uppercase_letter": "Lu", "lowercase_letter": "Ll",
    "titlecase_letter": "Lt", "modifier_letter": "Lm", "other_letter": "Lo", "mark": "M",
    "combining_mark": "M", "nonspacing_mark": "Mn", "spacing_mark": "Mc", "enclosing_mark": "Me",
    "number": "N", "decimal_number": "Nd", "digit": "Nd", "letter_number": "Nl", "other_number": "No",
    "punctuation": "P", "punct": "P", "connector_punctuation": "Pc", "dash_punctuation": "Pd",
    "open_punctuation": "Ps", "close_punctuation": "Pe", "initial_punctuation": "Pi",
    "final_punctuation": "Pf", "other_punctuation": "Po", "symbol": "S", "math_symbol": "Sm",
    "currency_symbol": "Sc", "modifier_symbol": "Sk", "other_symbol": "So", "separator": "Z",
    "space_separator": "Zs", "line_separator": "Zl", "paragraph_separator": "Zp", "other": "C",
    "control": "Cc", "cntrl": "Cc", "format": "Cf", "private_use": "Co", "unassigned": "Cn",
}  # fmt: skip
_CATEGORIES = frozenset(
    [
        "L",
        "LC",
        "Lu",
        "Ll",
        "Lt",
        "Lm",
        "Lo",
        "M",
        "Mn",
        "Mc",
        "Me",
        "N",
        "Nd",
        "Nl",
        "No",
        "P",
        "Pc",
        "Pd",
        "Ps",
        "Pe",
        "Pi",
        "Pf",
        "Po",
        "S",
        "Sm",
        "Sc",
        "Sk",
        "So",
        "Z",
        "Zs",
        "Zl",
        "Zp",
        "C",
        "Cc",
        "Cf",
        "Co",
        "Cn",
    ]
)


@cache
def unicode_property(name: str, value: str | None) -> CharSet | None:
    r"""The set of `\p{name=value}` or `\p{name}`; None when it is not known here (scripts, for one).

    General categories come from the running Python's Unicode data; of the binary properties those
    that are sums of ranges (`ASCII`, `Any`, `ASCII_Hex_Digit`, `Assigned`, `White_Space`) are known.
    """
    if value is not None:
        is_category = name in ("General_Category", "gc")
        return unicode_property(value, None) if is_category and _category(value) else None
    known = {
        "Any": EVERY_CHARACTER,
        "ASCII": CharSet.from_ranges([(0, 0x7F)]),
        "ASCII_Hex_Digit": ASCII_DIGITS | CharSet.between("a", "f") | CharSet.between("A", "F"),
        "AHex": ASCII_DIGITS | CharSet.between("a", "f") | CharSet.between("A", "F"),
        "White_Space": (ECMA_SPACE | CharSet.of("\x85")) - CharSet.of("\ufeff"),
        "space": (ECMA_SPACE | CharSet.of("\x85")) - CharSet.of("\ufeff"),
    }
    if name in known:
        return known[name]
    if name == "Assigned":
        return ~_category_members("Cn")
    category = _category(name)
    return _category_members(category) if category else None


def _category(name: str) -> str | None:
    return name if name in _CATEGORIES else _CATEGORY_NAMES.get(name.lower())


@cache
def _category_members(category: str) -> CharSet:
    table = _by_category()
    if category == "Cn":
        return ~CharSet.from_ranges(one for ranges in table.values() for one in ranges)
    wanted = (
        ("Lu", "Ll", "Lt") if category == "LC" else tuple(one for one in table if one.startswith(category))
    )
    members = CharSet.from_ranges(one for part in wanted for one in table.get(part, ()))
    return members | _category_members("Cn") if category == "C" else members


@cache
def _by_category() -> dict[str, tuple[Range, ...]]:
    """The ranges of every two-letter general category that has assigned characters."""
    table: dict[str, list[Range]] = {"Co": [(0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)]}
    for low, high in _ASSIGNED:
        start, current = low, unicodedata.category(chr(low))
        for code in range(low + 1, high + 2):
            category = unicodedata.category(chr(code)) if code <= high else ""
            if category != current:
                if current != "Cn":
                    table.setdefault(current, []).append((start, code - 1))
                start, current = code, category
    return {category: tuple(ranges) for category, ranges in table.items()}


@cache
def _case_orbits() -> tuple[CharSet, ...]:
    """Classes of characters that are equal without regard to case (more than one member each)."""
    leader: dict[str, str] = {}

    def find(character: str) -> str:
        while leader.get(character, character) != character:
            character = leader[character]
        return character

    for code in range(_LAST_CASED + 1):
        character = chr(code)
        for other in (character.lower(), character.upper()):
            if len(other) == 1 and other != character:
                leader[find(character)] = find(other)
                leader.setdefault(other, other)
    orbits: dict[str, list[str]] = {}
    for character in leader:
        orbits.setdefault(find(character), []).append(character)
    return tuple(CharSet.of({*members, root}) for root, members in orbits.items())


@cache
def ignoring_case(members: CharSet, *, ascii_only: bool = False) -> CharSet:
    """The set with every character that differs from a member in case alone."""
    extra = CharSet(())
    if ascii_only:
        for low in "abcdefghijklmnopqrstuvwxyz":
            if low in members or low.upper() in members:
                extra |= CharSet.of((low, low.upper()))
        return members | extra
    found = [orbit.ranges for orbit in _case_orbits() if members & orbit]
    return CharSet.from_ranges(members.ranges + tuple(one for ranges in found for one in ranges))
