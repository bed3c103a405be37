"""Context-free grammars as plain trees, whatever notation they were written in."""

from __future__ import annotations

from dataclasses import dataclass

from sgrt_grammars.regex.language import Language


@dataclass(frozen=True, slots=True)
class Terminal:
    """Texts of a regular language."""

    language: Language


@dataclass(frozen=True, slots=True)
class Mark:
    """A special token, by id."""

    token_id: int


@dataclass(frozen=True, slots=True)
class Reference:
    """What a rule derives."""

    name: str


@dataclass(frozen=True, slots=True)
class Series:
    """The parts one after the other; the empty text when there is none."""

    parts: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Any of the options; nothing when there is none."""

    options: tuple[Body, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """`body`, `minimum` to `maximum` times (None: unbounded)."""

    body: Body
    minimum: int
    maximum: int | None


Body = Terminal | Mark | Reference | Series | Branch | Loop

EMPTY = Series(())
IMPOSSIBLE = Branch(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """A grammar: the bodies of its rules, and the rule it starts with. `key` names it by content."""

    bodies: dict[str, Body]
    start: str
    key: tuple[object, ...]


def series(*parts: Body) -> Body:
    """The parts one after the other, simplified."""
    flat: list[Body] = []
    for part in parts:
        if part == IMPOSSIBLE:
            return IMPOSSIBLE
        flat += part.parts if isinstance(part, Series) else (part,)
    return flat[0] if len(flat) == 1 else Series(tuple(flat))


def branch(*options: Body) -> Body:
    """Any of the options, simplified."""
    flat: dict[Body, None] = {}
    for option in options:
        flat |= dict.fromkeys(option.options if isinstance(option, Branch) else (option,))
    return next(iter(flat)) if len(flat) == 1 else Branch(tuple(flat))


def loop(body: Body, minimum: int, maximum: int | None) -> Body:
    """A repetition, simplified."""
    if maximum == 0 or body == EMPTY:
        return EMPTY
    return body if minimum == maximum == 1 else Loop(body, minimum, maximum)


def factored(body: Body) -> Body:
    """The body with common beginnings of options written once.

    `a | a b` becomes `a (b)?`: rules of many levels (sum, product, power, ...) would otherwise double the ways
    to begin with every level.
    """
    match body:
        case Branch(options):
            return _factored(options)
        case Series(parts):
            return series(*(factored(part) for part in parts))
        case Loop(inner, minimum, maximum):
            return Loop(factored(inner), minimum, maximum)
        case _:
            return body


def _factored(options: tuple[Body, ...]) -> Body:
    groups: dict[Body, list[Body]] = {}
    has_empty = False
    for option in options:
        parts = option.parts if isinstance(option, Series) else (option,)
        if not parts:
            has_empty = True
            continue
        groups.setdefault(parts[0], []).append(series(*parts[1:]))
    found = [series(factored(first), factored(branch(*rests))) for first, rests in groups.items()]
    return branch(*found, EMPTY) if has_empty else branch(*found)
