"""Removal of left recursion.

First empty texts are removed, so that every rule's text has a first character. Rules that can begin with each
other form a group with equations A_j = sum_k A_k M_kj + B_j, where M_kj is what may follow A_k in a body of A_j.
The least solution is A = B M*. With the empty followers as a relation E and the others as M', M* = (E* M')* E*,
which rules S_kj (what may follow A_k until A_j is complete) say in right recursion:
S_kj = E*_kj + sum_l T_kl S_lj with T = E* M'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sgrt_grammars.components import strong_components
from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.notation.grammar import (
    EMPTY,
    IMPOSSIBLE,
    Body,
    Branch,
    Loop,
    Reference,
    Rules,
    Series,
    branch,
    loop,
    series,
)
from sgrt_grammars.notation.nullable import is_nullable, nonempty, nullable_rules, without_empty_texts

MAX_GROUP = 200
"""Rules that can begin with one another: the removal is quadratic in their number."""


def without_left_recursion(rules: Rules) -> Rules:
    """An equal grammar in which no rule can begin with itself."""
    nullable = nullable_rules(rules)
    if not _recursive_groups(rules.bodies, nullable):
        return rules
    bodies = without_empty_texts(rules, nullable)
    solved = dict(bodies)
    for group in _recursive_groups(bodies, frozenset()):
        if len(group) > MAX_GROUP:
            raise CompileLimitExceeded(
                f"{len(group)} rules are left-recursive through each other; at most {MAX_GROUP} may",
                limit="rules",
            )
        solved |= _solved(group, bodies)
    start = rules.start
    if start in nullable:
        start = f"{start}?"
        solved[start] = branch(Reference(rules.start), EMPTY)
    return Rules(bodies=solved, start=start, key=rules.key)


def _recursive_groups(bodies: dict[str, Body], nullable: frozenset[str]) -> list[list[str]]:
    """Groups of rules that can begin with each other, or with themselves."""

    def beginnings(name: str) -> list[str]:
        return list(dict.fromkeys(_beginnings(bodies[name], nullable)))

    groups = strong_components(list(bodies), beginnings)
    return [group for group in groups if len(group) > 1 or group[0] in beginnings(group[0])]


def _beginnings(body: Body, nullable: frozenset[str]) -> Iterator[str]:
    """The rules that a text of the body can begin with."""
    match body:
        case Reference(name):
            yield name
        case Branch(options):
            for option in options:
                yield from _beginnings(option, nullable)
        case Loop(inner, _, _):
            yield from _beginnings(inner, nullable)
        case Series(parts):
            for part in parts:
                yield from _beginnings(part, nullable)
                if not is_nullable(part, nullable):
                    break


@dataclass(slots=True)
class _Followers:
    """A body as `sum_k A_k followers_k + rest`, where no text of `rest` begins in the group."""

    by_name: dict[str, Body] = field(default_factory=dict)
    rest: Body = IMPOSSIBLE

    def add(self, name: str, follower: Body) -> None:
        self.by_name[name] = branch(self.by_name.get(name, IMPOSSIBLE), follower)

    def merge(self, other: _Followers) -> None:
        for name, follower in other.by_name.items():
            self.add(name, follower)
        self.rest = branch(self.rest, other.rest)


def _split(body: Body, group: frozenset[str]) -> _Followers:
    """Split a body by the member of the group that it begins with."""
    found = _Followers()
    match body:
        case Reference(name) if name in group:
            found.add(name, EMPTY)
        case Branch(options):
            for option in options:
                found.merge(_split(option, group))
        case Loop(inner, minimum, maximum):
            can_skip = is_nullable(inner)
            if minimum == 0 or can_skip:
                found.rest = EMPTY
            left = None if maximum is None else maximum - 1
            low = 0 if can_skip else max(minimum - 1, 0)
            first = nonempty(inner)
            found.merge(_split_series(first, loop(first, low, left), group))
        case Series(parts) if parts:
            found.merge(_split_series(parts[0], series(*parts[1:]), group))
        case _:
            found.rest = body
    return found


def _split_series(first: Body, rest: Body, group: frozenset[str]) -> _Followers:
    found = _Followers()
    heads = _split(first, group)
    for name, follower in heads.by_name.items():
        found.add(name, series(follower, rest))
    if is_nullable(heads.rest):
        found.merge(_split(rest, group))
    found.rest = branch(found.rest, series(nonempty(heads.rest), rest))
    return found


def _solved(group: list[str], bodies: dict[str, Body]) -> dict[str, Body]:
    """Right-recursive bodies for a group, and the rules of what may follow its members."""
    members = frozenset(group)
    split = {name: _split(bodies[name], members) for name in group}
    units = _unit_closure(group, split)
    solved: dict[str, Body] = {}
    for target in group:
        starts = [series(split[source].rest, _follower_rule(source, target)) for source in group]
        solved[target] = branch(*(start for start in starts if start != IMPOSSIBLE))
        for source in group:
            steps = [
                series(nonempty(split[following].by_name[middle]), _follower_rule(following, target))
                for middle in units[source]
                for following in group
                if middle in split[following].by_name
            ]
            ends = [EMPTY] if target in units[source] else []
            solved[_follower_rule(source, target).name] = branch(
                *ends, *(one for one in steps if one != IMPOSSIBLE)
            )
    return solved


def _unit_closure(group: list[str], split: dict[str, _Followers]) -> dict[str, list[str]]:
    """E*: for every member, the members that it may complete without a further text."""
    closure: dict[str, list[str]] = {}
    for source in group:
        reached = {source: None}
        waiting = [source]
        while waiting:
            current = waiting.pop()
            for target in group:
                follower = split[target].by_name.get(current)
                if follower is not None and target not in reached and is_nullable(follower):
                    reached[target] = None
                    waiting.append(target)
        closure[source] = list(reached)
    return closure


def _follower_rule(source: str, target: str) -> Reference:
    return Reference(f"{source}→{target}")
