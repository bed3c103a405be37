"""From parsed patterns to languages: zero-width assertions become intersections.

A pattern with assertions is first multiplied out into flat rows (an alternation around an assertion becomes
several rows). In a row, a look-ahead at a place says that the whole rest of the text is in a language, so the
rest of the row is intersected with it; a look-behind says the same of the text so far. The two meet when a
look-behind follows a look-ahead: then one that speaks about a single character is decided either by the text
between the two, or, if that is empty, before the look-ahead.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

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
    repeat,
)
from sgrt_grammars.regex.syntax import TEXT_END, TEXT_START, Fork, Look, Loop, Pattern, Row, Side

MAX_ROWS = 512
_MAX_UNROLLED = 4

FlatRow = tuple[Language | Look, ...]


def full_match(pattern: Pattern) -> Language:
    """The texts that the pattern matches from their first to their last character."""
    if isinstance(pattern, Language):
        return pattern
    return either(*(_solve(EMPTY, row, is_local=False) for row in _rows(pattern)))


def looks_away(pattern: Pattern) -> bool:
    """Whether an alternative of the pattern matches no whole text: its assertions speak of what stands around it."""
    match pattern:
        case Fork(options):
            return any(looks_away(option) for option in options)
        case Row() | Loop() | Look():
            rows = _rows(pattern)
            can_match = any(chain(*_texts(row)) != NOTHING for row in rows)
            return can_match and all(_solve(EMPTY, row, is_local=False) == NOTHING for row in rows)
        case _:
            return False


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
        return _at_an_edge(once, minimum, maximum)
    rows: list[FlatRow] = []
    for count in range(minimum, maximum + 1):
        repeated: list[FlatRow] = [()]
        for _ in range(count):
            _check_size(len(repeated) * len(once))
            repeated = [row + tail for row in repeated for tail in once]
        rows += repeated
    _check_size(len(rows))
    return rows


def _at_an_edge(once: list[FlatRow], minimum: int, maximum: int | None) -> list[FlatRow]:
    """A long repetition in which assertions say "the text ends here" or "the text starts here" alone.

    A round that ends the text is the last one that matches a character, a round that starts it the first one.
    Rounds that match nothing may stand for any that are missing, where the body allows them.
    """
    plain = [row for row in once if not any(isinstance(item, Look) for item in row)]
    last = [row for row in once if row not in plain and isinstance(row[-1], Look) and row[-1] == TEXT_END]
    first = [row for row in once if row not in plain and isinstance(row[0], Look) and row[0] == TEXT_START]
    edges = [*((row[:-1], row) for row in last), *((row[1:], row) for row in first if row not in last)]
    if len(plain) + len(edges) < len(once) or any(
        isinstance(item, Look) for rest, _ in edges for item in rest
    ):
        raise PatternRefused(
            "an assertion inside an unbounded or long repetition",
            hint="move the assertion out of the repetition",
        )
    body = either(*(chain(*(item for item in row if not isinstance(item, Look))) for row in plain))
    can_be_empty = contains(body, "") or any(
        all(contains(item, "") for item in _texts(rest)) for rest, _ in edges
    )
    low = 0 if can_be_empty else max(minimum - 1, 0)
    others = repeat(body, low, None if maximum is None else maximum - 1)
    rows: list[FlatRow] = [(repeat(body, minimum, maximum),)]
    rows += [(others, *row) for row in last]
    rows += [(*row, others) for row in first if row not in last]
    if last and first:
        middle = repeat(
            body, 0 if can_be_empty else max(minimum - 2, 0), None if maximum is None else maximum - 2
        )
        rows += [(*head, middle, *tail) for head in first for tail in last]
    return rows


def _texts(row: Iterable[Language | Look]) -> list[Language]:
    return [item for item in row if not isinstance(item, Look)]


def _solve(left: Language, row: FlatRow, *, is_local: bool) -> Language:
    """Texts `left` followed by the row. `is_local`: `left` began after the start of the text, at a look-ahead."""
    for index, item in enumerate(row):
        if left == NOTHING:
            return NOTHING
        if not isinstance(item, Look):
            left = chain(left, item)
        elif item.side is Side.BEHIND:
            left = _local(left, item) if is_local else both(left, _behind(item))
        else:
            return _solve_ahead(left, item, row[index + 1 :], is_local=is_local)
    return left


def _local(left: Language, behind: Look) -> Language:
    """The texts of `left`, of one character at least, after which a look-behind about one character holds."""
    if _single(behind) is None:
        raise PatternRefused(
            "a look-behind of more than one character after a look-ahead", hint="put the look-behind first"
        )
    return both(left, _behind(behind), SOME_TEXT)


def _solve_ahead(left: Language, ahead: Look, rest: FlatRow, *, is_local: bool) -> Language:
    suffix = _ahead(ahead)
    behind = next((place for place, item in enumerate(rest) if _is_behind(item)), None)
    if behind is None:
        return chain(left, both(suffix, _solve(EMPTY, rest, is_local=False)))
    look = rest[behind]
    assert isinstance(look, Look), "found as a look-behind"
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
        before = list(takewhile(lambda item: not _is_behind(item), row))
        if len(before) < len(row) and all(contains(item, "") for item in _texts(before)):
            raise PatternRefused(
                "a look-behind inside a look-ahead that may look beyond its start", hint="take it out"
            )
    rows = ((*row, ANY_TEXT) for row in _rows(look.body))
    body = either(*(_solve(EMPTY, row, is_local=True) for row in rows))
    return outside(body) if look.negated else body
