"""Shapes: sets of JSON values in normal form, one part per type, with boolean algebra.

A schema is a union over the types of JSON; a keyword about one type leaves the others alone. Numbers and
strings are single sets of their own algebra; arrays and objects are unions of conjunctions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.regex.language import ANY_TEXT, NOTHING, Language, both, either, outside
from sgrt_grammars.schema.arrays import ANY_ARRAY, ArrayShape, complement_array, intersect_arrays
from sgrt_grammars.schema.numbers import (
    ALL_NUMBERS,
    NO_NUMBER,
    NumberSet,
    complement_numbers,
    intersect_numbers,
    unite_numbers,
)
from sgrt_grammars.schema.objects import ANY_OBJECT, ObjectShape, complement_object, intersect_objects

MAX_ALTERNATIVES = 1000
"""How many conjunctions one union may hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A set of JSON values."""

    null: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: NumberSet = NO_NUMBER
    strings: Language = NOTHING
    arrays: tuple[ArrayShape, ...] = ()
    objects: tuple[ObjectShape, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether evidently no value belongs."""
        has_scalars = self.null or self.booleans or self.numbers or self.strings != NOTHING
        return not (has_scalars or self.arrays or self.objects)


BOTH_BOOLEANS = frozenset({True, False})
ANYTHING = Shape(
    null=True,
    booleans=BOTH_BOOLEANS,
    numbers=ALL_NUMBERS,
    strings=ANY_TEXT,
    arrays=(ANY_ARRAY,),
    objects=(ANY_OBJECT,),
)
NO_VALUE = Shape()


def intersect(one: Shape, other: Shape) -> Shape:
    """Values in both shapes."""
    if one is ANYTHING:
        return other
    if other is ANYTHING:
        return one
    return Shape(
        null=one.null and other.null,
        booleans=one.booleans & other.booleans,
        numbers=limited(intersect_numbers(one.numbers, other.numbers)),
        strings=both(one.strings, other.strings),
        arrays=_product(one.arrays, other.arrays, intersect_arrays, ANY_ARRAY),
        objects=_product(one.objects, other.objects, intersect_objects, ANY_OBJECT),
    )


def unite(shapes: Iterable[Shape]) -> Shape:
    """Values in at least one of the shapes."""
    union = NO_VALUE
    for shape in shapes:
        if union is NO_VALUE or shape is ANYTHING:
            union = shape
            continue
        if union is ANYTHING:
            break
        union = Shape(
            null=union.null or shape.null,
            booleans=union.booleans | shape.booleans,
            numbers=limited(unite_numbers(union.numbers, shape.numbers)),
            strings=either(union.strings, shape.strings),
            arrays=_distinct((*union.arrays, *shape.arrays), ANY_ARRAY),
            objects=_distinct((*union.objects, *shape.objects), ANY_OBJECT),
        )
    return union


def complement(shape: Shape) -> Shape:
    """Values that are not in the shape."""
    arrays: tuple[ArrayShape, ...] = (ANY_ARRAY,)
    for array in shape.arrays:
        arrays = _product(arrays, tuple(complement_array(array)), intersect_arrays, ANY_ARRAY)
    objects: tuple[ObjectShape, ...] = (ANY_OBJECT,)
    for one in shape.objects:
        objects = _product(objects, tuple(complement_object(one)), intersect_objects, ANY_OBJECT)
    return Shape(
        null=not shape.null,
        booleans=BOTH_BOOLEANS - shape.booleans,
        numbers=limited(complement_numbers(shape.numbers)),
        strings=outside(shape.strings),
        arrays=arrays,
        objects=objects,
    )


_Conjunction = TypeVar("_Conjunction", ArrayShape, ObjectShape)


def _product(
    one: tuple[_Conjunction, ...],
    other: tuple[_Conjunction, ...],
    intersection: Callable[[_Conjunction, _Conjunction], _Conjunction],
    everything: _Conjunction,
) -> tuple[_Conjunction, ...]:
    if one == (everything,):
        return other
    if other == (everything,):
        return one
    if len(one) * len(other) > MAX_ALTERNATIVES * 4:
        raise _too_many()
    found = [intersection(first, second) for first in one for second in other]
    return _distinct(tuple(shape for shape in found if not shape.is_empty), everything)


def _distinct(shapes: tuple[_Conjunction, ...], everything: _Conjunction) -> tuple[_Conjunction, ...]:
    if any(shape is everything for shape in shapes):
        return (everything,)
    unique: list[_Conjunction] = []
    for shape in shapes:
        if len(unique) > MAX_ALTERNATIVES:
            raise _too_many()
        if len(shapes) > 64 or shape not in unique:  # beyond a few, duplicates cost less than finding them
            unique.append(shape)
    return tuple(unique)


_Item = TypeVar("_Item")


def limited(items: tuple[_Item, ...], most: int = MAX_ALTERNATIVES * 10) -> tuple[_Item, ...]:
    """The items, if there are not too many of them; ranges of numbers are cheap, so they may be many."""
    if len(items) > most:
        raise _too_many()
    return items


def _too_many() -> CompileLimitExceeded:
    return CompileLimitExceeded(
        f"the subschemas of allOf, oneOf, not and if multiply out to more than {MAX_ALTERNATIVES} alternatives; let a"
        " key with a different const in each tell them apart, or use anyOf",
        limit="alternatives",
    )
