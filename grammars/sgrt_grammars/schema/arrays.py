"""Conjunctions about arrays, closed (as unions of conjunctions) under intersection and complement."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sgrt_grammars.schema.formula import ALWAYS, NEVER, Formula, conjunction, negation


@dataclass(frozen=True, slots=True, kw_only=True)
class Contains:
    """Between `minimum` and `maximum` items (None: no bound) from position `start` on satisfy `item`."""

    item: Formula
    start: int = 0
    minimum: int = 1
    maximum: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayShape:
    """Arrays: formulas of the first items and of the rest, bounds of the length, counted items, uniqueness."""

    prefix: tuple[Formula, ...] = ()
    rest: Formula = ALWAYS
    minimum: int = 0
    maximum: int | None = None
    contains: tuple[Contains, ...] = ()
    is_unique: bool = False
    has_duplicates: bool = False

    def item(self, index: int) -> Formula:
        """The formula of the item at a position."""
        return self.prefix[index] if index < len(self.prefix) else self.rest

    @property
    def is_empty(self) -> bool:
        """Whether evidently no array belongs."""
        if self.maximum is not None and self.minimum > self.maximum:
            return True
        if any(self.item(index) == NEVER for index in range(min(self.minimum, len(self.prefix) + 1))):
            return True
        if any(one.maximum is not None and one.minimum > one.maximum for one in self.contains):
            return True
        return self.is_unique and self.has_duplicates


ANY_ARRAY = ArrayShape()


def normalized(shape: ArrayShape) -> ArrayShape:
    """The same arrays with the length bounds that impossible items imply."""
    prefix = shape.prefix
    impossible = next((index for index, item in enumerate(prefix) if item == NEVER), None)
    if impossible is not None:
        prefix = prefix[:impossible]
    if impossible is not None or shape.rest == NEVER:
        bound = len(prefix) if shape.maximum is None else min(shape.maximum, len(prefix))
        return replace(shape, prefix=prefix, rest=NEVER, maximum=bound)
    return shape


def intersect_arrays(one: ArrayShape, other: ArrayShape) -> ArrayShape:
    """Arrays in both shapes."""
    length = max(len(one.prefix), len(other.prefix))
    maxima = [shape.maximum for shape in (one, other) if shape.maximum is not None]
    return normalized(
        ArrayShape(
            prefix=tuple(conjunction(one.item(index), other.item(index)) for index in range(length)),
            rest=conjunction(one.rest, other.rest),
            minimum=max(one.minimum, other.minimum),
            maximum=min(maxima, default=None),
            contains=tuple(dict.fromkeys(one.contains + other.contains)),
            is_unique=one.is_unique or other.is_unique,
            has_duplicates=one.has_duplicates or other.has_duplicates,
        )
    )


def complement_array(shape: ArrayShape) -> list[ArrayShape]:
    """Arrays that are not in the shape."""
    found = [
        ArrayShape(prefix=(ALWAYS,) * index + (negation(item),), minimum=index + 1)
        for index, item in enumerate(shape.prefix)
        if item != ALWAYS
    ]
    if shape.rest not in (ALWAYS, NEVER):
        found.append(ArrayShape(contains=(Contains(item=negation(shape.rest), start=len(shape.prefix)),)))
    if shape.minimum:
        found.append(ArrayShape(maximum=shape.minimum - 1))
    if shape.maximum is not None:
        found.append(ArrayShape(minimum=shape.maximum + 1))
    for one in shape.contains:
        if one.minimum:
            found.append(ArrayShape(contains=(replace(one, minimum=0, maximum=one.minimum - 1),)))
        if one.maximum is not None:
            found.append(ArrayShape(contains=(replace(one, minimum=one.maximum + 1, maximum=None),)))
    if shape.is_unique:
        found.append(ArrayShape(has_duplicates=True))
    if shape.has_duplicates:
        found.append(ArrayShape(is_unique=True))
    return found
