"""Scopes of captured texts that stand within themselves: recursive objects with free keys, arrays of unique items."""

from __future__ import annotations

import json

import pytest
from byte_vocabulary import BYTES

from sgrt_grammars import GrammarCompiler, JsonSchema, PropertyOrder, UnsatisfiableConstraint

Schema = dict[str, object]


def recursive(**more: object) -> Schema:
    node: Schema = {
        "type": "object",
        "minProperties": 1,
        "properties": {
            "not": {"$ref": "#/$defs/node"},
            "and": {"type": "array", "items": {"$ref": "#/$defs/node"}, "minItems": 1, "uniqueItems": True},
            "name": {"type": "string"},
        },
        **more,
    }
    return {"$ref": "#/$defs/node", "$defs": {"node": node}}


SCHEMAS: list[tuple[str, Schema]] = [
    ("free keys", recursive()),
    ("no free keys", recursive(additionalProperties=False)),
    ("free keys with values of their kind", recursive(additionalProperties={"$ref": "#/$defs/node"})),
    ("a value of its kind needed", recursive(anyOf=[{"required": ["not"]}, {"required": ["name"]}])),
    ("unique items of their kind", {"type": "array", "uniqueItems": True, "items": {"$ref": "#"}, "maxItems": 3}),
]  # fmt: skip


@pytest.mark.parametrize("schema", [one for _, one in SCHEMAS], ids=[name for name, _ in SCHEMAS])
@pytest.mark.parametrize("order", list(PropertyOrder))
@pytest.mark.parametrize("is_native", [True, False])
def test_recursive_values_that_need_something_are_completed(
    schema: Schema, order: PropertyOrder, is_native: bool
) -> None:
    compiler = GrammarCompiler(BYTES, native=is_native)
    matcher = compiler.compile(JsonSchema(text=json.dumps(schema), order=order)).matcher()
    for token in matcher.shortest_completion():
        assert matcher.advance(token)
    assert matcher.is_accepting


@pytest.mark.parametrize("is_native", [True, False])
def test_a_recursive_value_without_end_is_refused(is_native: bool) -> None:
    endless = {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}
    with pytest.raises(UnsatisfiableConstraint):
        GrammarCompiler(BYTES, native=is_native).compile(JsonSchema(text=json.dumps(endless)))
