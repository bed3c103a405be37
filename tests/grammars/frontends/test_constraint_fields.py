"""Fields of constraints are checked where the constraint is made, whatever its kind."""

from __future__ import annotations

import types
from dataclasses import fields
from enum import Enum
from typing import Any, get_args, get_type_hints

import pytest

from sgrt_grammars import constraint as module
from sgrt_grammars.constraint import Choice, Constraint, JsonSchema, Regex, Tag, Text, Whitespace
from sgrt_grammars.errors import InvalidConstraint

KINDS: tuple[type[Any], ...] = get_args(Constraint)
RIGHT: dict[object, object] = {
    str: "a",
    int: 1,
    int | None: 1,
    bool: True,
    tuple[str, ...]: ("a",),
    tuple[Tag, ...]: (Tag(begin=Text("a"), body=Text("b"), end=Text("c")),),
}
EVERY_FIELD = [
    (kind, field.name, get_type_hints(kind, dict(vars(module)))[field.name])
    for kind in KINDS
    for field in fields(kind)
]
ENUM_FIELDS = [row for row in EVERY_FIELD if isinstance(row[2], type) and issubclass(row[2], Enum)]


def _value(annotation: Any) -> object:  # noqa: ANN401 - what a type hint is
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next(iter(annotation))
    if annotation in RIGHT:
        return RIGHT[annotation]
    return (Text("a"),) if isinstance(annotation, types.GenericAlias) else Text("a")


def _made(kind: type[Any], **changed: object) -> Any:  # noqa: ANN401 - any kind of constraint
    hints = get_type_hints(kind, dict(vars(module)))
    return kind(**{field.name: _value(hints[field.name]) for field in fields(kind)} | changed)


@pytest.mark.parametrize(("kind", "name", "annotation"), EVERY_FIELD)
def test_every_field_takes_its_own_type_and_refuses_another(
    kind: type[Any], name: str, annotation: object
) -> None:
    made = _made(kind)
    assert getattr(made, name) == _value(annotation)
    for wrong in (object(), {"a": 1}, 1.5, "\ud800"):
        with pytest.raises(InvalidConstraint) as raised:
            _made(kind, **{name: wrong})
        assert raised.value.pointer == f"{kind.__name__}.{name}"


@pytest.mark.parametrize(("kind", "name", "enum"), ENUM_FIELDS)
def test_a_member_may_be_given_as_its_value(kind: type[Any], name: str, enum: type[Enum]) -> None:
    for member in enum:
        assert _made(kind, **{name: member.value}) == _made(kind, **{name: member})
    values = ", ".join(repr(member.value) for member in enum)
    with pytest.raises(InvalidConstraint, match=f"'junk' is not one of {values}"):
        _made(kind, **{name: "junk"})


def test_a_list_is_a_tuple_and_one_text_is_no_list() -> None:
    assert Choice(["a", "b"]) == Choice(options=("a", "b"))  # type: ignore[arg-type]  # what users write
    with pytest.raises(InvalidConstraint, match="a tuple of texts is needed, not 'ab'"):
        Choice("ab")  # type: ignore[arg-type]  # what users write


def test_what_is_the_constraint_itself_stands_without_a_name() -> None:
    assert Regex("a+") == Regex(pattern="a+")
    schema = JsonSchema('{"type":"integer"}', whitespace="flexible")  # type: ignore[arg-type]  # what users write
    assert schema.whitespace is Whitespace.FLEXIBLE


def test_a_schema_that_is_no_text_says_where_mappings_go() -> None:
    with pytest.raises(InvalidConstraint, match=r"gen\(\.\.\., schema=\.\.\.\) takes a mapping"):
        JsonSchema({"type": "integer"})  # type: ignore[arg-type]  # what users write
