"""Which shapes are evidently empty, and the difference of shapes, which relies on it to stay small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint
from sgrt_grammars.schema.arrays import ArrayShape, complement_array, intersect_arrays
from sgrt_grammars.schema.formula import ALWAYS, NEVER, Formula, conjunction
from sgrt_grammars.schema.objects import ObjectShape, complement_object, intersect_objects, without_absorbed
from sgrt_grammars.schema.sameness import Sameness
from sgrt_grammars.schema.shape import MAX_ALTERNATIVES, NO_VALUE, Shape, complement, intersect, limited

_MAX_DEPTH = 4
_MANY = 8

MAX_INTERSECTIONS = 10_000
"""How many conjunctions one document may need to tell alternatives apart: seconds of work."""


class LeadsBack(InvalidConstraint):
    """A shape is asked for while it is being worked out: a question about members, or a schema that is a circle."""


@dataclass(slots=True)
class Emptiness:
    """Looks into members and items, a few levels deep. A doubtful shape counts as not empty."""

    shape: Callable[[Formula], Shape]
    sameness: Sameness
    _known: dict[Formula, bool] = field(default_factory=dict)
    _nesting: int = 0
    _num_intersections: int = 0

    def pruned(self, shape: Shape) -> Shape:
        """The same values, without conjunctions that are evidently empty."""
        arrays = tuple(one for one in shape.arrays if not self.is_void_array(one))
        objects = tuple(one for one in shape.objects if not self.is_void_object(one))
        return replace(shape, arrays=arrays, objects=objects)

    def difference(self, one: Shape, other: Shape) -> Shape:
        """Values of `one` that are not in `other`, taking away one conjunction after the other."""
        if one.is_empty or other.is_empty:
            return one
        rest = intersect(
            replace(one, arrays=(), objects=()), complement(replace(other, arrays=(), objects=()))
        )
        arrays, objects, most = one.arrays, one.objects, MAX_ALTERNATIVES
        for array in other.arrays:
            arrays = limited(
                tuple(left for part in arrays for left in self._without_array(part, array)), most
            )
        for taken in other.objects:
            left = tuple(left for part in objects for left in self._without_object(part, taken))
            objects = limited(without_absorbed(left) if len(left) > _MANY else left, most)
        found = replace(rest, arrays=arrays, objects=objects)
        return NO_VALUE if found.is_empty else found

    def _without_array(self, one: ArrayShape, other: ArrayShape) -> list[ArrayShape]:
        if self.is_void_array(intersect_arrays(one, other)):
            return [one]
        found = [intersect_arrays(one, part) for part in complement_array(other)]
        self._note(len(found))
        return [part for part in found if not self.is_void_array(part)]

    def _without_object(self, one: ObjectShape, other: ObjectShape) -> list[ObjectShape]:
        if self._are_disjoint(one, other):
            return [one]
        found = [intersect_objects(one, part) for part in complement_object(other)]
        self._note(len(found))
        return [part for part in found if not self.is_void_object(part)]

    def _note(self, count: int) -> None:
        self._num_intersections += count
        if self._num_intersections > MAX_INTERSECTIONS:
            raise CompileLimitExceeded(
                f"telling the alternatives of oneOf, not and if apart takes more than {MAX_INTERSECTIONS} combinations;"
                " let a key with a different const in each tell them apart, or use anyOf",
                limit="alternatives",
            )

    def _are_disjoint(self, one: ObjectShape, other: ObjectShape) -> bool:
        """Whether evidently no object is in both: some required member has no value that suits both."""
        for name in one.required | other.required:
            if self._is_void(conjunction(one.value(name), other.value(name)), 1):
                return True
        maxima = [shape.maximum for shape in (one, other) if shape.maximum is not None]
        return bool(maxima) and min(maxima) < max(one.minimum, other.minimum)

    def is_void_array(self, shape: ArrayShape, depth: int = 0) -> bool:
        """Whether evidently no array belongs."""
        if shape.is_empty:
            return True
        count = min(shape.minimum, len(shape.prefix) + 1)
        if any(self._is_void(shape.item(index), depth + 1) for index in range(count)):
            return True
        return any(
            one.minimum > 0
            and all(
                self._is_void(conjunction(item, one.item), depth + 1)
                for item in (*shape.prefix[one.start :], shape.rest)
            )
            for one in shape.contains
        )

    def is_void_object(self, shape: ObjectShape, depth: int = 0) -> bool:
        """Whether evidently no object belongs."""
        return shape.is_empty or any(
            self._is_void(shape.members[name].value, depth + 1) for name in shape.required
        )

    def _is_void(self, formula: Formula, depth: int) -> bool:
        if formula in (ALWAYS, NEVER) or depth > _MAX_DEPTH:
            return formula == NEVER
        known = self._known.get(formula)
        if known is not None or self._nesting > _MAX_DEPTH:
            return bool(known)
        if self.sameness.is_contradiction(formula):
            self._known[formula] = True
            return True
        self._known[formula] = False  # while it is being looked at: recursion is not evidently empty
        self._nesting += 1  # working out a shape may ask about the emptiness of others
        try:
            self._known[formula] = self._is_void_shape(self.shape(formula), depth)
        except LeadsBack:
            del self._known[formula]
            return False
        finally:
            self._nesting -= 1
        return self._known[formula]

    def _is_void_shape(self, shape: Shape, depth: int) -> bool:
        if shape.is_empty:
            return True
        if not replace(shape, arrays=(), objects=()).is_empty:
            return False
        arrays = all(self.is_void_array(one, depth) for one in shape.arrays)
        return arrays and all(self.is_void_object(one, depth) for one in shape.objects)
