"""Which rules derive the empty text, and the same grammar without empty texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sgrt_grammars.notation.grammar import (
    EMPTY,
    IMPOSSIBLE,
    Body,
    Branch,
    Loop,
    Mark,
    Reference,
    Rules,
    Series,
    Terminal,
    branch,
    loop,
    series,
)
from sgrt_grammars.regex.language import SOME_TEXT, both, contains


def references(body: Body) -> Iterator[Reference]:
    """All references in a body."""
    stack = [body]
    while stack:
        match stack.pop():
            case Reference() as found:
                yield found
            case Series(parts) | Branch(parts):
                stack.extend(reversed(parts))
            case Loop(inner, _, _):
                stack.append(inner)


def is_nullable(body: Body, nullable: Collection[str] = ()) -> bool:
    """Whether a body derives the empty text, given the rules that do."""
    match body:
        case Terminal(language):
            return contains(language, "")
        case Mark():
            return False
        case Reference(name):
            return name in nullable
        case Series(parts):
            return all(is_nullable(part, nullable) for part in parts)
        case Branch(options):
            return any(is_nullable(option, nullable) for option in options)
        case Loop(inner, minimum, _):
            return minimum == 0 or is_nullable(inner, nullable)


def nullable_rules(rules: Rules) -> frozenset[str]:
    """The rules that derive the empty text."""
    users: dict[str, set[str]] = {}
    for name, body in rules.bodies.items():
        for used in references(body):
            users.setdefault(used.name, set()).add(name)
    found: set[str] = set()
    waiting = list(rules.bodies)
    while waiting:
        name = waiting.pop()
        if name not in found and is_nullable(rules.bodies[name], found):
            found.add(name)
            waiting.extend(users.get(name, ()))
    return frozenset(found)


def without_empty_texts(rules: Rules, nullable: frozenset[str]) -> dict[str, Body]:
    """Bodies that derive the same texts but the empty one; references to nullable rules are optional."""
    return {name: nonempty(_expanded(body, nullable)) for name, body in rules.bodies.items()}


def _expanded(body: Body, nullable: frozenset[str]) -> Body:
    match body:
        case Reference(name):
            return branch(body, EMPTY) if name in nullable else body
        case Series(parts):
            return series(*(_expanded(part, nullable) for part in parts))
        case Branch(options):
            return branch(*(_expanded(option, nullable) for option in options))
        case Loop(inner, minimum, maximum):
            return loop(_expanded(inner, nullable), minimum, maximum)
        case _:
            return body


def nonempty(body: Body) -> Body:
    """The body without the empty text; no rule it refers to derives that."""
    match body:
        case Terminal(language):
            return Terminal(both(language, SOME_TEXT)) if contains(language, "") else body
        case Branch(options):
            return branch(*(nonempty(option) for option in options))
        case Loop(inner, minimum, maximum):
            first = nonempty(inner)
            return loop(first, 1 if is_nullable(inner) else max(minimum, 1), maximum)
        case Series(parts):
            return _nonempty_series(parts)
        case _:
            return body


def _nonempty_series(parts: tuple[Body, ...]) -> Body:
    """The first part that is not empty may be any up to the first that cannot be."""
    options: list[Body] = []
    for index, part in enumerate(parts):
        options.append(series(nonempty(part), *parts[index + 1 :]))
        if not is_nullable(part):
            break
    return branch(*options) if options else IMPOSSIBLE
