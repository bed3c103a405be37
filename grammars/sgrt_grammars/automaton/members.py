"""The states of members in order: what may follow each of them, as expressions that are built when they are reached."""

from __future__ import annotations

from functools import partial

from sgrt_grammars.expression import (
    EMPTY_TEXT,
    Alternation,
    Concatenation,
    Deferred,
    Expression,
    Literal,
    Members,
)


def members_expression(members: Members) -> Expression:
    """The members from the first place on."""
    keys = _keys(members, 0)
    return keys if _next_required(members, 0) is not None else Alternation((keys, EMPTY_TEXT))


def _next_required(members: Members, place: int) -> int | None:
    """The first member that must come from `place` on."""
    return next((i for i in range(place, len(members.names)) if members.required[i]), None)


def _keys(members: Members, place: int) -> Expression:
    """A member that may come at `place`, or what is free there."""
    required = _next_required(members, place)
    last = len(members.names) - 1 if required is None else required
    options = [_member(members, i) for i in range(place, last + 1)]
    if required is None:
        options.append(members.free)
    return Alternation(tuple(options))


def _member(members: Members, place: int) -> Expression:
    after = Deferred(
        (members.key, "after", place + 1),
        partial(_after, members, place + 1),
        place + 1 >= members.sound_from,
        partial(_shortest, members, place + 1),
    )
    return Concatenation((Literal(members.names[place]), members.between, members.values[place], after))


def _after(members: Members, place: int) -> Expression:
    """The end, or a separator and a further member."""
    more = Concatenation((members.separator, _keys(members, place)))
    return more if _next_required(members, place) is not None else Alternation((more, members.end))


def _shortest(members: Members, place: int) -> Expression:
    """The end, or the next member that must come."""
    required = _next_required(members, place)
    if required is None:
        return members.end
    return Concatenation((members.separator, _member(members, required)))
