"""Conjunctions about objects, closed (as unions of conjunctions) under intersection and complement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from sgrt_grammars.errors import UnsupportedConstraint
from sgrt_grammars.regex.language import (
    NOTHING,
    Language,
    both,
    contains,
    outside,
    words,
)
from sgrt_grammars.schema.formula import ALWAYS, NEVER, All, Formula, conjunction, negation


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A key that is treated by name: its value's formula, and whether `properties` declared it."""

    value: Formula
    is_declared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Values of all unnamed keys in `keys` satisfy `value`."""

    keys: Language
    value: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Between `minimum` and `maximum` properties have a key in `keys` and a value that satisfies `value`."""

    keys: Language
    value: Formula
    minimum: int = 1
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Implication:
    """Where the key `trigger` is present, all of `needed` are."""

    trigger: str
    needed: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectShape:
    """Objects. Every required key and every key of an implication is a member.

    `members` stand in the order of generation: declared ones first, then the others.
    """

    members: dict[str, Member] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    required: frozenset[str] = frozenset()
    minimum: int = 0
    maximum: int | None = None
    counts: tuple[Count, ...] = ()
    implications: tuple[Implication, ...] = ()

    def value(self, name: str) -> Formula:
        """The formula of the value of a key."""
        member = self.members.get(name)
        return self._ruled(name) if member is None else member.value

    def _ruled(self, name: str) -> Formula:
        return conjunction(*(rule.value for rule in self.rules if speaks_of(rule.keys, name)))

    @property
    def is_empty(self) -> bool:
        """Whether evidently no object belongs."""
        if self.maximum is not None and self.maximum < max(self.minimum, len(self.required)):
            return True
        if any(one.maximum is not None and one.minimum > one.maximum for one in self.counts):
            return True
        return any(self.members[name].value == NEVER for name in self.required)

    def with_members(self, names: Iterable[str]) -> ObjectShape:
        """The same objects, with these keys treated by name."""
        added = {name: Member(value=self._ruled(name)) for name in names if name not in self.members}
        return replace(self, members=self.members | added) if added else self


ANY_OBJECT = ObjectShape()


def speaks_of(keys: Language, name: str) -> bool:
    """Whether a rule or counter about `keys` is about a key that is treated by name."""
    surely = contains(keys, name)
    if not surely and contains(keys, name, possibly=True):
        raise UnsupportedConstraint(
            f"whether the key {name!r} has the format that names must have is not told apart",
            keyword="propertyNames",
            hint="name another key, or give propertyNames a pattern",
        )
    return surely


def intersect_objects(one: ObjectShape, other: ObjectShape) -> ObjectShape:
    """Objects in both shapes; members in the order declared by `one`, then by `other`, then undeclared."""
    if one is ANY_OBJECT:
        return other
    if other is ANY_OBJECT:
        return one
    names = [name for shape in (one, other) for name, member in shape.members.items() if member.is_declared]
    names += [name for shape in (one, other) for name in shape.members]
    members = {name: _joined_member(name, one, other) for name in dict.fromkeys(names)}
    maxima = [shape.maximum for shape in (one, other) if shape.maximum is not None]
    return ObjectShape(
        members=members,
        rules=tuple(dict.fromkeys(one.rules + other.rules)),
        required=one.required | other.required,
        minimum=max(one.minimum, other.minimum),
        maximum=min(maxima, default=None),
        counts=tuple(dict.fromkeys(one.counts + other.counts)),
        implications=tuple(dict.fromkeys(one.implications + other.implications)),
    )


def _joined_member(name: str, one: ObjectShape, other: ObjectShape) -> Member:
    first, second = one.members.get(name), other.members.get(name)
    if second is None and first is not None and not other.rules:
        return first
    if first is None and second is not None and not one.rules:
        return second
    is_declared = (first is not None and first.is_declared) or (second is not None and second.is_declared)
    return Member(value=conjunction(one.value(name), other.value(name)), is_declared=is_declared)


def without_absorbed(shapes: tuple[ObjectShape, ...]) -> tuple[ObjectShape, ...]:
    """The same objects in fewer shapes: those that evidently lie within another are left out."""
    demands = {index: _demands(shape) for index, shape in enumerate(shapes)}
    kept: list[int] = []
    for index in sorted(demands, key=lambda index: len(demands[index])):
        if not any(
            demands[wide] <= demands[index] and _includes(shapes[wide], shapes[index]) for wide in kept
        ):
            kept.append(index)
    return tuple(shapes[index] for index in sorted(kept))


def _demands(shape: ObjectShape) -> frozenset[object]:
    """All that an object must satisfy, but for its size."""
    values = ((name, part) for name, member in shape.members.items() for part in _parts(member.value))
    return frozenset((*values, *shape.required, *shape.rules, *shape.counts, *shape.implications))


def _includes(wide: ObjectShape, narrow: ObjectShape) -> bool:
    """Whether sizes, and the rules for keys that only `narrow` treats by name, are demanded there, too."""
    is_within = wide.minimum <= narrow.minimum and (
        wide.maximum is None or (narrow.maximum is not None and narrow.maximum <= wide.maximum)
    )
    if not wide.rules:
        return is_within
    unnamed = narrow.members.keys() - wide.members.keys()
    return is_within and all(_parts(wide.value(name)) <= _parts(narrow.value(name)) for name in unnamed)


def _parts(formula: Formula) -> frozenset[Formula]:
    return formula.parts if isinstance(formula, All) else frozenset({formula})


def complement_object(shape: ObjectShape) -> list[ObjectShape]:
    """Objects that are not in the shape. What lacks a required key, or has it with a wrong value, is one part."""
    found = [
        ObjectShape(
            members={name: Member(value=negation(member.value))},
            required=frozenset() if name in shape.required else frozenset({name}),
        )
        for name, member in shape.members.items()
        if name in shape.required or member.value != ALWAYS
    ]
    unnamed = outside(words(shape.members))
    for rule in shape.rules:
        keys = both(rule.keys, unnamed)
        if rule.value != ALWAYS and keys != NOTHING:
            found.append(ObjectShape(counts=(Count(keys=keys, value=negation(rule.value)),)))
    if shape.minimum:
        found.append(ObjectShape(maximum=shape.minimum - 1))
    if shape.maximum is not None:
        found.append(ObjectShape(minimum=shape.maximum + 1))
    return [*found, *_other_counts(shape), *_broken_implications(shape)]


def _other_counts(shape: ObjectShape) -> Iterator[ObjectShape]:
    for count in shape.counts:
        if count.minimum:
            yield ObjectShape(counts=(replace(count, minimum=0, maximum=count.minimum - 1),))
        if count.maximum is not None:
            yield ObjectShape(counts=(replace(count, minimum=count.maximum + 1, maximum=None),))


def _broken_implications(shape: ObjectShape) -> Iterator[ObjectShape]:
    for implication in shape.implications:
        for needed in sorted(implication.needed):
            members = {implication.trigger: Member(value=ALWAYS), needed: Member(value=NEVER)}
            yield ObjectShape(members=members, required=frozenset({implication.trigger}))
