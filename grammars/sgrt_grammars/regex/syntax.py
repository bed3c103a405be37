"""Parsed patterns: languages in which zero-width assertions may stand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sgrt_grammars.regex.charset import CharSet
from sgrt_grammars.regex.language import ANY_CHARACTER, Chars, Language, chain, characters, either, repeat


class Side(Enum):
    """Which text an assertion speaks about: what comes before it or what comes after it."""

    BEHIND = "behind"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class Look:
    """Holds where the text on `side` ends (BEHIND) or begins (AHEAD) with `body`; `negated`: where it does not."""

    side: Side
    negated: bool
    body: Pattern


@dataclass(frozen=True, slots=True)
class Row:
    """Patterns one after the other, with at least one assertion among them or inside them."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """Any of the options, with at least one assertion inside them."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A repetition whose body holds an assertion."""

    body: Pattern
    minimum: int
    maximum: int | None


Pattern = Language | Look | Row | Fork | Loop

TEXT_START = Look(Side.BEHIND, True, ANY_CHARACTER)
TEXT_END = Look(Side.AHEAD, True, ANY_CHARACTER)


def line_start(terminators: CharSet) -> Look:
    """The start of the text or of a line."""
    return Look(Side.BEHIND, True, characters(~terminators))


def line_end(terminators: CharSet) -> Look:
    """The end of the text or of a line."""
    return Look(Side.AHEAD, True, characters(~terminators))


def word_boundary(word: CharSet, *, negated: bool, is_in_empty: bool = True) -> Fork:
    """A place between a word character and another one or an edge (`negated`: any other place).

    `is_in_empty`: whether the negated one holds in the empty text. In Python's `re` before 3.14 it does not.
    """
    inside, any_one = Chars(word), ANY_CHARACTER
    rows: list[tuple[Look, ...]] = [
        (Look(Side.BEHIND, not before, inside), Look(Side.AHEAD, before != negated, inside))
        for before in (False, True)
    ]
    if negated and not is_in_empty:  # between no word characters, there is a character on one side at least
        behind, ahead = rows[0]
        rows[0] = (Look(Side.BEHIND, False, any_one), behind, ahead)
        rows.append((behind, ahead, Look(Side.AHEAD, False, any_one)))
    return Fork(tuple(Row(row) for row in rows))


def has_assertion(pattern: Pattern) -> bool:
    """Whether a zero-width assertion stands anywhere in the pattern."""
    return isinstance(pattern, Look | Row | Fork | Loop)


def row(parts: list[Pattern]) -> Pattern:
    """Patterns one after the other."""
    plain = [part for part in parts if isinstance(part, Language)]
    if len(plain) == len(parts):
        return chain(*plain)
    return Row(tuple(parts)) if len(parts) > 1 else parts[0]


def fork(options: list[Pattern]) -> Pattern:
    """Any of the patterns."""
    plain = [option for option in options if isinstance(option, Language)]
    if len(plain) == len(options):
        return either(*plain)
    return Fork(tuple(options)) if len(options) > 1 else options[0]


def loop(body: Pattern, minimum: int, maximum: int | None) -> Pattern:
    """A repetition of a pattern."""
    if has_assertion(body):
        return Loop(body, minimum, maximum)
    assert isinstance(body, Language), "what holds no assertion is a language"
    return repeat(body, minimum, maximum)
