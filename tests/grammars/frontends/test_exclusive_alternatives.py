"""Alternatives that exclude one another: kept few where they are alike, refused where they are too many."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from sgrt_grammars import (
    CompileLimitExceeded,
    GrammarCompiler,
    JsonSchema,
    PropertyOrder,
    UnsupportedConstraint,
    Vocabulary,
)

COMPILER = GrammarCompiler(Vocabulary([*(bytes([byte]) for byte in range(256)), None], [256]))


def accepts(schema: dict[str, Any], value: object, order: PropertyOrder = PropertyOrder.ANY) -> bool:
    matcher = COMPILER.compile(JsonSchema(text=json.dumps(schema), order=order)).matcher()
    text = json.dumps(value, separators=(",", ":")).encode()
    return all(matcher.advance(byte) for byte in text) and matcher.is_accepting


def a_service(name: str, *more: str) -> dict[str, Any]:
    """One kind of many, each with copies of the same members."""
    env = {"type": "array", "description": f"of {name}", "items": {"type": "object", "required": ["name"]}}
    own = {key: {"type": "string"} for key in ("name", name, "args", *more)}
    return {"type": "object", "properties": {**own, "env": env}, "required": ["name", name]}


SERVICES = {
    "oneOf": [a_service(name, f"{name}Path", f"{name}Args") for name in ("image", "project", "file", "url")]
}


@pytest.mark.parametrize(
    "value",
    [
        {"name": "a", "image": "b"},
        {"name": "a", "image": "b", "project": "c"},
        {"name": "a", "image": "b", "project": 1},
        {"name": "a", "image": "b", "project": "c", "projectPath": 1},
        {"name": "a", "image": "b", "env": [{"name": 1}], "args": "x"},
        {"name": "a", "image": "b", "env": [{}]},
        {"name": "a"},
        {"image": "b", "name": "a", "url": "c", "code": "d", "urlArgs": 0, "codePath": None},
        [],
    ],
)
def test_copies_of_one_subschema_count_as_one(value: Any) -> None:  # noqa: ANN401  # JSON of any kind
    expected = jsonschema.Draft202012Validator(SERVICES).is_valid(value)
    assert accepts(SERVICES, value) is expected


def test_many_conditions_on_one_key_stay_few() -> None:
    def condition(name: str) -> dict[str, Any]:
        return {
            "if": {"type": "object", "properties": {"kind": {"const": name}}, "required": ["kind"]},
            "then": {"properties": {"value": {"const": name.upper()}}},
        }

    schema = {"type": "object", "allOf": [condition(f"k{index}") for index in range(40)]}
    for value in (
        {"kind": "k7", "value": "K7"},
        {"kind": "k7", "value": "K8"},
        {"kind": "x", "value": 1},
        {"value": 2},
    ):
        assert accepts(schema, value) is jsonschema.Draft202012Validator(schema).is_valid(value)


def test_the_opposite_of_many_alternatives_is_told_apart_while_it_is_built() -> None:
    inner = {"oneOf": [a_service(name) for name in ("image", "project", "file", "url")]}
    schema = {"type": "object", "properties": {"x": {"not": inner}}, "required": ["x"]}
    for value in (
        {"x": {"name": "a", "image": "b"}},
        {"x": {"name": "a"}},
        {"x": {"name": "a", "image": "b", "url": "c"}},
    ):
        assert accepts(schema, value) is jsonschema.Draft202012Validator(schema).is_valid(value)


def independent(number: int) -> dict[str, Any]:
    return {"oneOf": [{"required": ["a"], "properties": {f"x{index}_{one}": {"type": "integer"} for one in range(6)}}
                      for index in range(number)]}  # fmt: skip


def test_alternatives_that_nothing_tells_apart_are_an_error_at_once_that_says_where() -> None:
    schema = {"type": "object", "properties": {"deep": independent(12)}}
    with pytest.raises(CompileLimitExceeded, match="/properties/deep"):
        COMPILER.compile(JsonSchema(text=json.dumps(schema)))


def test_any_order_is_refused_for_more_alternatives_than_it_can_follow() -> None:
    schema = {"type": "object", "properties": {"deep": independent(4)}}
    assert COMPILER.compile(JsonSchema(text=json.dumps(schema))).matcher().shortest_completion()
    with pytest.raises(UnsupportedConstraint) as refused:
        COMPILER.compile(JsonSchema(text=json.dumps(schema), order=PropertyOrder.ANY))
    assert (refused.value.pointer, refused.value.keyword) == ("/properties/deep", "oneOf")
