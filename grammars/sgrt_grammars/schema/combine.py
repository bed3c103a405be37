"""Works out combinations of subschemas ahead of use, where they may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.schema.arrays import ArrayShape
from sgrt_grammars.schema.formula import All, At, Formula, Not, Some, conjunction, negation
from sgrt_grammars.schema.objects import ObjectShape
from sgrt_grammars.schema.shape import Shape

MAX_COMBINATIONS = 2_000


def combine(
    formulas: Iterable[Formula], shape_of: Callable[[Formula], Shape], visit: Callable[[Shape, str], None]
) -> None:
    """Work out the shapes of the formulas and of all compound ones they lead to; `visit` gets each shape."""
    stack = list(formulas)
    seen = set(stack)
    while stack:
        current = stack.pop()
        try:
            shape = shape_of(current)
        except CompileLimitExceeded as error:
            where = f"{error} (at {pointer_of(current) or '/'})"
            raise CompileLimitExceeded(where, limit=error.limit) from error
        visit(shape, pointer_of(current))
        for formula in _children(shape):
            if formula not in seen and not isinstance(formula, At):
                seen.add(formula)
                stack.append(formula)
        if len(seen) > MAX_COMBINATIONS:
            raise CompileLimitExceeded(
                f"more than {MAX_COMBINATIONS} combinations of subschemas", limit="subschemas"
            )


def pointer_of(formula: Formula) -> str:
    """The pointer of a subschema that the formula speaks about."""
    match formula:
        case At(pointer, _):
            return pointer.removeprefix("=")
        case Not(body):
            return pointer_of(body)
        case All(parts) | Some(parts):
            return min((pointer_of(part) for part in parts), default="")


def _children(shape: Shape) -> Iterable[Formula]:
    for array in shape.arrays:
        yield from _array_children(array)
    for one in shape.objects:
        yield from _object_children(one)


def _array_children(shape: ArrayShape) -> Iterable[Formula]:
    yield from shape.prefix
    yield shape.rest
    for one in shape.contains:
        for item in (*shape.prefix[one.start :], shape.rest):
            yield conjunction(item, one.item)
            yield conjunction(item, negation(one.item))


def _object_children(shape: ObjectShape) -> Iterable[Formula]:
    values = [member.value for member in shape.members.values()]
    values += [rule.value for rule in shape.rules]
    yield from values
    for one in shape.counts:
        for value in values:
            yield conjunction(value, one.value)
            yield conjunction(value, negation(one.value))
        yield one.value
        yield negation(one.value)
