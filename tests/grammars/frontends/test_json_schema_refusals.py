"""What is malformed, cannot be kept, cannot be met or goes too far: typed errors that say where."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sgrt_grammars.constraint import JsonSchema
from sgrt_grammars.errors import (
    CompileLimitExceeded,
    InvalidConstraint,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from sgrt_grammars.schema.lower import schema_expression
from tests.grammars.frontends.expression_oracle import Oracle


def _lower(schema: Any) -> None:  # noqa: ANN401  # any JSON
    schema_expression(JsonSchema(text=json.dumps(schema)))


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"type": "string", "required": True}}}, "/properties/a/required"),
        ({"type": "any"}, "/type"),
        ({"items": {"minimum": "3"}}, "/items/minimum"),
        ({"anyOf": []}, "/anyOf"),
        ({"properties": {"a/b": {"maxLength": -1}}}, "/properties/a~1b/maxLength"),
        ({"pattern": "("}, "/pattern"),
        ({"patternProperties": {"[": True}}, "/patternProperties"),
        ({"$ref": "#/$defs/missing"}, ""),
        ({"$ref": "#nowhere"}, ""),
        ({"allOf": [{"$ref": "#"}]}, "/allOf/0"),
        ({"not": 3}, "/not"),
        ({"enum": "a"}, "/enum"),
        ({"multipleOf": 0}, "/multipleOf"),
    ],
)
def test_a_malformed_schema_is_an_error_with_its_pointer(schema: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidConstraint) as caught:
        _lower(schema)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("text", ["{", "[]", "3", '{"a": NaN}', '{"minimum": 1e9999}', ""])
def test_what_is_no_schema_at_all_is_an_error(text: str) -> None:
    with pytest.raises(InvalidConstraint):
        schema_expression(JsonSchema(text=text))


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer"),
    [
        ({"$ref": "http://example.test/other"}, "$ref", "/$ref"),
        ({"items": {"format": "idn-hostname"}}, "format", "/items/format"),
        ({"propertyNames": {"format": "hostname"}, "required": ["xn--a"]}, "propertyNames", ""),
        ({"pattern": r"^(a)\1$"}, "pattern", "/pattern"),
        ({"not": {"uniqueItems": True}}, "uniqueItems", ""),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$schema", "/$schema"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_pointer_keyword_and_hint(
    schema: dict[str, Any], keyword: str, pointer: str
) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        _lower(schema)
    assert (caught.value.keyword, caught.value.pointer) == (keyword, pointer)
    assert caught.value.hint


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"not": {}},
        {"enum": []},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "integer", "minimum": 0.2, "maximum": 0.8},
        {"type": "string", "enum": [1]},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "array", "minItems": 2, "maxItems": 1},
        {"oneOf": [True, True]},
        {"allOf": [{"type": "string"}, {"type": "null"}]},
    ],
)
def test_what_no_value_satisfies_is_refused(schema: dict[str, Any] | bool) -> None:
    with pytest.raises(UnsatisfiableConstraint):
        _lower(schema)


def test_an_unreachable_fault_is_nobodys_fault() -> None:
    _lower({"type": "string", "$defs": {"bad": {"pattern": "(", "type": "any"}}})


def _nested(depth: int) -> str:
    return '{"items":' * depth + "{}" + "}" * depth


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_deep_schemas_end_in_a_typed_error(depth: int) -> None:
    with pytest.raises(CompileLimitExceeded):
        schema_expression(JsonSchema(text=_nested(depth)))


def test_choices_that_multiply_out_end_in_a_typed_error() -> None:
    parts = [{"oneOf": [{"required": [f"{letter}{part}"]} for letter in "abcdef"]} for part in range(8)]
    with pytest.raises(CompileLimitExceeded):
        _lower({"allOf": parts})


def test_huge_enumerations_and_bounds_are_no_trouble() -> None:
    _lower({"enum": [f"value_{index:05d}" for index in range(5_000)]})
    _lower({"type": "string", "maxLength": 1_000_000})
    _lower({"type": "array", "minItems": 100_000, "items": {"type": "integer"}})


@pytest.mark.parametrize("length", [100, 3_000])
def test_long_chains_of_references_end_in_a_typed_error(length: int) -> None:
    links = {f"r{index}": {"$ref": f"#/$defs/r{index + 1}"} for index in range(length)}
    definitions = {**links, f"r{length}": {"type": "null"}}
    with pytest.raises(CompileLimitExceeded):
        _lower({"properties": {"a": {"$ref": "#/$defs/r0"}}, "$defs": definitions})


def test_chains_of_references_are_followed() -> None:
    links = {f"r{index}": {"$ref": f"#/$defs/r{index + 1}"} for index in range(60)}
    schema = {"properties": {"a": {"$ref": "#/$defs/r0"}}, "$defs": {**links, "r60": {"type": "null"}}}
    oracle = Oracle(schema_expression(JsonSchema(text=json.dumps(schema))))
    assert oracle.accepts(b'{"a":null}')
    assert not oracle.accepts(b'{"a":1}')


def test_an_exclusive_choice_may_look_into_the_schema_it_belongs_to() -> None:
    node = {
        "type": "object",
        "properties": {"kind": {"type": "string"}, "sub": {"$ref": "#"}},
        "oneOf": [{"required": ["sub"]}, {"required": ["a"]}],
    }
    oracle = Oracle(schema_expression(JsonSchema(text=json.dumps(node))))
    assert oracle.accepts(b'{"kind":"k","a":1}')
    assert not oracle.accepts(b'{"kind":"k"}')
