"""From parsed patterns to languages: zero-width assertions become intersections.

A pattern with assertions is first multiplied out into flat rows (an alternation around an assertion becomes
several rows). In a row, a look-ahead at a place says that the whole rest of the text is in a language, so the
rest of the row is intersected with it; a look-behind says the same of the text so far. The two meet when a
look-behind follows a look-ahead: then one that speaks about a single character is decided either by the text
between the two, or, if that is empty, before the look-ahead.
"""

from __future__ import annotations

from sgrt_grammars.regex.charset import EVERY_CHARACTER, CharSet
from sgrt_grammars.regex.errors import PatternRefused, PatternTooDeep
from sgrt_grammars.regex.language import (
    ANY_TEXT,
    EMPTY,
    NOTHING,
    SOME_TEXT,
    Chars,
    Language,
    Words,
    both,
    chain,
    characters,
    contains,
    either,
    outside,
)
from sgrt_grammars.regex.syntax import Fork, Look, Loop, Pattern, Row, Side

MAX_ROWS = 512
_MAX_UNROLLED = 4

FlatRow = tuple[Language | Look, ...]


def full_match(pattern: Pattern) -> Language:
    """The texts that the pattern matches from their first to their last character."""
    if isinstance(pattern, Language):
        return pattern
    return either(*(_solve(EMPTY, row, is_local=False) for row in _rows(pattern)))


def search(pattern: Pattern) -> Language:
    """The texts in which the pattern matches somewhere."""
    if isinstance(pattern, Language):
        return chain(ANY_TEXT, pattern, ANY_TEXT)
    rows = ((ANY_TEXT, *row, ANY_TEXT) for row in _rows(pattern))
    return either(*(_solve(EMPTY, row, is_local=False) for row in rows))


def _rows(pattern: Pattern) -> list[FlatRow]:
    """The pattern multiplied out until no assertion stands inside an alternation or a repetition."""
    match pattern:
        case Row(parts):
            rows: list[FlatRow] = [()]
            for part in parts:
                tails = _rows(part)
                _check_size(len(rows) * len(tails))
                rows = [row + tail for row in rows for tail in tails]
            return rows
        case Fork(options):
            found = [row for option in options for row in _rows(option)]
            _check_size(len(found))
            return found
        case Loop(body, minimum, maximum):
            return _unrolled(body, minimum, maximum)
        case _:
            return [(pattern,)]


def _check_size(num_rows: int) -> None:
    if num_rows > MAX_ROWS:
        raise PatternTooDeep(
            f"assertions multiply out to more than {MAX_ROWS} alternatives", limit="alternatives"
        )


def _unrolled(body: Pattern, minimum: int, maximum: int | None) -> list[FlatRow]:
    once = _rows(body)
    if all(isinstance(item, Look) for row in once for item in row):  # holding once is holding again
        return once if minimum else [(), *once]
    if maximum is None or maximum > _MAX_UNROLLED:
        raise PatternRefused(
            "an assertion inside an unbounded or long repetition",
            hint="move the assertion out of the repetition",
        )
    rows: list[FlatRow] = []
    for count in range(minimum, maximum + 1):
        repeated: list[FlatRow] = [()]
        for _ in range(count):
            _check_size(len(repeated) * len(once))
            repeated = [row + tail for row in repeated for tail in once]
        rows += repeated
    _check_size(len(rows))
    return rows


def _solve(left: Language, row: FlatRow, *, is_local: bool) -> Language:
    """Texts `left` followed by the row. `is_local`: `left` began after the start of the text, at a look-ahead."""
    for index, item in enumerate(row):
        if left == NOTHING:
            return NOTHING
        if not isinstance(item, Look):
            left = chain(left, item)
        elif item.side is Side.BEHIND:
            left = both(left, _behind(item), SOME_TEXT) if is_local else both(left, _behind(item))
        else:
            return _solve_ahead(left, item, row[index + 1 :], is_local=is_local)
    return left


def _solve_ahead(left: Language, ahead: Look, rest: FlatRow, *, is_local: bool) -> Language:
    suffix = _ahead(ahead)
    behind = next((place for place, item in enumerate(rest) if _is_behind(item)), None)
    if behind is None:
        return chain(left, both(suffix, _solve(EMPTY, rest, is_local=False)))
    look = rest[behind]
    assert isinstance(look, Look), "found as a look-behind"
    if _single(look) is None:
        raise PatternRefused(
            "a look-behind of more than one character after a look-ahead", hint="put the look-behind first"
        )
    inside = chain(left, both(suffix, _solve(EMPTY, rest, is_local=True)))
    between = rest[:behind]
    if not all(isinstance(item, Look) or contains(item, "") for item in between):
        return inside
    looks = tuple(item for item in between if isinstance(item, Look))
    row = (look, ahead, *looks, *rest[behind + 1 :])
    return either(inside, _solve(left, row, is_local=is_local))


def _is_behind(item: Language | Look) -> bool:
    return isinstance(item, Look) and item.side is Side.BEHIND


def _single(look: Look) -> CharSet | None:
    """The characters the assertion speaks about, when it is about exactly one character."""
    if isinstance(look.body, Chars):
        return look.body.members
    if isinstance(look.body, Words) and look.body.texts and all(len(text) == 1 for text in look.body.texts):
        return CharSet.of(look.body.texts)
    return None


def _behind(look: Look) -> Language:
    """The texts after whose end the look-behind holds."""
    single = _single(look)
    if single is not None:
        if not look.negated:
            return chain(ANY_TEXT, characters(single))
        others = characters(EVERY_CHARACTER - single)
        return either(EMPTY, chain(ANY_TEXT, others))
    rows = ((ANY_TEXT, *row) for row in _rows(look.body))
    body = either(*(_solve(EMPTY, row, is_local=False) for row in rows))
    return outside(body) if look.negated else body


def _ahead(look: Look) -> Language:
    """The texts before whose start the look-ahead holds."""
    single = _single(look)
    if single is not None:
        if not look.negated:
            return chain(characters(single), ANY_TEXT)
        others = characters(EVERY_CHARACTER - single)
        return either(EMPTY, chain(others, ANY_TEXT))
    for row in _rows(look.body):
        if any(_is_behind(item) for item in row):
            raise PatternRefused("a look-behind inside a look-ahead", hint="take it out of the look-ahead")
    rows = ((*row, ANY_TEXT) for row in _rows(look.body))
    body = either(*(_solve(EMPTY, row, is_local=False) for row in rows))
    return outside(body) if look.negated else body
