"""Every keyword of JSON Schema: what is valid is accepted, what is not is refused."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from jsonschema.validators import validator_for

from sgrt_grammars.constraint import JsonSchema, NumberSpelling, PropertyOrder, Whitespace
from sgrt_grammars.schema.lower import schema_expression
from tests.grammars.frontends.expression_oracle import Oracle

TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "sub": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["name"],
    "additionalProperties": False,
}
POINT = {
    "type": "object",
    "properties": {"kind": {"const": "point"}, "x": {"type": "integer"}},
    "required": ["kind"],
}
LINE = {
    "type": "object",
    "properties": {"kind": {"const": "line"}, "n": {"type": "number"}},
    "required": ["kind"],
}

CASES: list[tuple[str, Any, list[Any], list[Any]]] = [
    ("types", {"type": ["string", "null"]}, ["a", None], [1, True, [], {}]),
    ("integers written with a point", {"type": "integer"}, [1, 1.0, -3], [1.5, "1"]),
    ("untyped keywords leave other types alone", {"minimum": 3, "maxLength": 1}, [3, "a", None, [], {}], [2, "ab"]),
    ("enum of any values", {"enum": [1, "a", None, [1, {"b": 2}]]}, [1, 1.0, "a", None, [1, {"b": 2}]], [2, "b", [1]]),
    ("enum and type", {"type": "string", "enum": [1, "a"]}, ["a"], [1]),
    ("const object", {"const": {"a": [1, 2], "b": "x"}}, [{"a": [1, 2], "b": "x"}], [{"a": [1]}, {"a": [1, 2]}]),
    ("string keywords together", {"type": "string", "pattern": "b", "minLength": 2, "maxLength": 3}, ["ab", "abc"],
     ["b", "abcd", "aa"]),
    ("pattern about quotes and backslashes", {"type": "string", "pattern": '^"[a-z]\\\\$'}, ['"a\\'], ["a", '"a']),
    ("format and length", {"type": "string", "format": "email", "maxLength": 8}, ["a@b.co"], ["long@host.org", "x"]),
    ("items and bounds", {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], [1, 2]],
     [[], [1, 2, 3], ["a"]]),
    ("prefixItems constrain places, not lengths", {"prefixItems": [{"type": "string"}, {"type": "integer"}],
     "items": {"type": "boolean"}}, [[], ["a"], ["a", 1], ["a", 1, True]], [[1], ["a", "b"], ["a", 1, 2]]),
    ("items of earlier drafts", {"items": [{"type": "string"}], "additionalItems": False}, [[], ["a"]], [["a", 1], [1]]),
    ("contains with bounds", {"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[1, 1], [0, 1, 1, 1]],
     [[1], [1, 1, 1, 1], []]),
    ("unique items", {"uniqueItems": True}, [[1, 2], [1, True], [[1], [2]], []], [[1, 1.0], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]]),
    ("unique items of a few", {"items": {"enum": ["a", "b", 1]}, "uniqueItems": True}, [["a", 1, "b"], []],
     [["a", "a"], [1, 1]]),
    ("required, declared or not", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a", "z"]},
     [{"a": 1, "z": None}], [{"a": 1}, {"z": 1}, {"a": "x", "z": 1}]),
    ("closed objects", {"properties": {"a": {}}, "additionalProperties": False}, [{}, {"a": 1}, 5], [{"b": 1}]),
    ("free keys with a schema", {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
     [{"a": "x", "b": 1}], [{"b": "x"}]),
    ("overlapping patterns", {"type": "object", "patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}}},
     [{"xy": 7, "xa": 1, "ay": "s"}], [{"xy": 3}, {"xy": "s"}, {"ay": 1}]),
    ("patterns and declared keys", {"properties": {"rank": {"type": "string"}}, "patternProperties": {"^r": {"maxLength": 1}}},
     [{"rank": "B"}], [{"rank": "BB"}, {"rank": 1}]),
    ("names of properties", {"propertyNames": {"maxLength": 2}, "additionalProperties": {"type": "integer"}}, [{"ab": 1}, {}],
     [{"abc": 1}, {"ab": "x"}]),
    ("numbers of properties", {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1, "maxProperties": 2},
     [{"a": 1}, {"b": 1, "c": 2}], [{}, {"a": 1, "b": 2, "c": 3}]),
    ("dependent keys", {"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"], "c": ["a"]}}, [{}, {"b": 1},
     {"a": 1, "b": 2}, {"a": 1, "b": 1, "c": 1}], [{"a": 1}, {"b": 1, "c": 1}]),
    ("dependencies of draft 7", {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}, [{"a": 1, "b": 1}, {"c": 1, "d": 1}],
     [{"a": 1}, {"c": 1}]),
    ("dependent schemas", {"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}}, [{"b": "x"}, {"a": 1, "b": 2}],
     [{"a": 1, "b": "x"}]),
    ("all of several objects", {"allOf": [{"properties": {"x": {"minimum": 2}}, "required": ["x"]}, {"properties": {"y": {"const": 1}}}]},
     [{"x": 2, "y": 1}], [{"x": 1}, {"x": 2, "y": 2}, {"y": 1}]),
    ("any of overlapping branches", {"anyOf": [{"type": "integer", "minimum": 5}, {"type": "number", "maximum": 3}]}, [7, 2.5, 3],
     [4, 3.5]),
    ("any of with siblings", {"type": "object", "required": ["a"], "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
     [{"a": 1, "b": 1}, {"a": 1, "c": 1}], [{"a": 1}, {"b": 1}]),
    ("one of, exclusively", {"oneOf": [{"type": "integer", "minimum": 0}, {"type": "number", "maximum": 10}]}, [-1, 11, 0.5],
     [5, 10]),
    ("one of objects told apart by a constant", {"oneOf": [POINT, LINE]}, [{"kind": "point", "x": 1}, {"kind": "line", "n": 1.5}],
     [{"kind": "point", "x": "a"}, {"kind": "other"}, {}]),
    ("one of by required keys", {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, [{"a": 1}, {"b": 1}], [{"a": 1, "b": 1}, {}]),
    ("not", {"not": {"type": "string", "pattern": "^a"}}, ["b", 1, None], ["a", "ab"]),
    ("not required", {"type": "object", "not": {"required": ["a"]}}, [{}, {"b": 1}], [{"a": 1}]),
    ("not an array of integers", {"type": "array", "not": {"items": {"type": "integer"}}}, [["a"], [1, "a"]], [[], [1, 2]]),
    ("not a closed object", {"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": False}}, [{"b": 1}],
     [{}, {"a": 1}]),
    ("if, then and else", {"if": {"properties": {"t": {"const": "a"}}, "required": ["t"]}, "then": {"required": ["v"]},
     "else": {"required": ["w"]}}, [{"t": "a", "v": 1}, {"t": "b", "w": 1}, {"w": 1}, 3], [{"t": "a", "w": 1}, {"t": "b"}]),
    ("recursion", TREE, [{"name": "a", "sub": [{"name": "b", "sub": []}]}], [{"name": "a", "sub": [{}]}, {"sub": []}]),
    ("references with siblings", {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "minimum": 3}, [3], [2, "a"]),
    ("references by id and anchor", {"$id": "http://example.test/root", "$defs": {"a": {"$id": "item", "$defs": {
     "b": {"$anchor": "here", "type": "null"}}, "type": "string"}}, "properties": {"p": {"$ref": "item"}, "q": {"$ref": "item#here"}}},
     [{"p": "x", "q": None}], [{"p": 1}, {"q": "x"}]),
    ("dynamic references", {"$id": "http://example.test/strict", "$dynamicAnchor": "node", "$ref": "tree",
     "unevaluatedProperties": False, "$defs": {"tree": {"$id": "tree", "$dynamicAnchor": "node", "type": "object",
     "properties": {"data": {"type": "integer"}, "kids": {"type": "array", "items": {"$dynamicRef": "#node"}}}}}},
     [{"data": 1, "kids": [{"data": 2}]}], [{"kids": [{"date": 2}]}, {"kids": [{"data": "x"}]}]),
    ("unevaluated properties", {"allOf": [{"properties": {"a": {"type": "integer"}}}], "anyOf": [{"properties": {"b": {"const": 1}},
     "required": ["b"]}, {"required": ["a"]}], "unevaluatedProperties": False}, [{"a": 1}, {"a": 1, "b": 1}, {"b": 1}],
     [{"a": 1, "c": 1}, {"a": 1, "b": 2}, {"c": 1}]),
    ("unevaluated items", {"prefixItems": [{"type": "string"}], "contains": {"const": 1}, "unevaluatedItems": False},
     [["a", 1], ["a", 1, 1]], [["a", 1, 2], ["a"]]),
    ("members that can never be", {"properties": {"a": False, "b": {"not": {}}}}, [{}, {"c": 1}], [{"a": 1}, {"b": 1}]),
    ("exclusive bounds of draft 4", {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 0, "exclusiveMinimum": True},
     [1, 0.5], [0, -1]),
    ("integers of draft 4", {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, [1, -3], [1.0, 1.5]),
    ("bounded integers of draft 4", {"$schema": "http://json-schema.org/draft-04/schema#", "properties": {"a": {"type": "integer",
     "minimum": 0}, "b": {"type": "number"}}}, [{"a": 1}, {"b": 1.0}], [{"a": 1.0}, {"a": -1}]),
    ("siblings of a reference in draft 7", {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"n": {"type": "integer"}},
     "properties": {"a": {"$ref": "#/definitions/n", "maximum": 3}}}, [{"a": 9}], [{"a": "x"}]),
    ("unknown keywords and formats are annotations", {"x-mark": 1, "format": "color", "description": "}{", "type": "string"}, ["x"], [1]),
]  # fmt: skip


def _oracle(schema: object, **options: Any) -> Oracle:  # noqa: ANN401  # of JsonSchema
    options = {"order": PropertyOrder.ANY, "numbers": NumberSpelling.ANY, **options}
    return Oracle(schema_expression(JsonSchema(text=json.dumps(schema), **options)))


def _spelled(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_keyword_is_enforced_exactly(schema: Any, valid: list[Any], invalid: list[Any]) -> None:  # noqa: ANN401
    oracle = _oracle(schema)
    for value in valid:
        assert oracle.accepts(_spelled(value)), value
    for value in invalid:
        assert not oracle.accepts(_spelled(value)), value


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_cases_themselves_agree_with_jsonschema(
    schema: dict[str, Any], valid: list[Any], invalid: list[Any]
) -> None:
    kind = validator_for(schema, jsonschema.Draft202012Validator)
    is_of_another_draft = "dependencies" in schema or isinstance(schema.get("items"), list)
    validator = (jsonschema.Draft7Validator if is_of_another_draft else kind)(
        schema, format_checker=jsonschema.FormatChecker(["email"])
    )
    assert all(validator.is_valid(value) for value in valid)
    assert not any(validator.is_valid(value) for value in invalid)


ORDERED = {
    "type": "object",
    "properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
    "required": ["b", "z"],
}


@pytest.mark.parametrize("text", ['{"b":1,"z":2}', '{"b":1,"a":"x","z":2,"q":3,"p":4}'])
def test_keys_come_declared_then_required_then_free(text: str) -> None:
    assert _oracle(ORDERED, order=PropertyOrder.SCHEMA).accepts(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"x","b":1,"z":2}',
        '{"z":2,"b":1}',
        '{"b":1,"q":1,"z":2}',
        '{"b":1,"z":1,"z":2}',
        '{"b":1,"z":2,"q":1,"q":1}',
    ],
)
def test_other_orders_and_repeated_keys_are_refused(text: str) -> None:
    assert not _oracle(ORDERED, order=PropertyOrder.SCHEMA).accepts(text.encode())


@pytest.mark.parametrize("text", ['{"a":"x","z":2,"q":0,"b":1}', '{"q":1,"z":2,"b":1}'])
def test_any_order_takes_them_all(text: str) -> None:
    assert _oracle(ORDERED).accepts(text.encode())


@pytest.mark.parametrize(
    "text",
    ['{"b":1,"b":1,"z":2}', '{"q":1,"z":2,"b":1,"q":2}', '{"a":"x","z":2}', '{"\\u0062":"x","b":1,"z":1}'],
)
def test_any_order_still_refuses_repeated_and_missing_keys(text: str) -> None:
    assert not _oracle(ORDERED).accepts(text.encode())


def test_members_of_applicators_come_in_the_order_of_the_document() -> None:
    base = {"properties": {"x": {"type": "integer"}}, "required": ["x"]}
    after = _oracle({"properties": {"y": {"const": 1}}, "allOf": [base]}, order=PropertyOrder.SCHEMA)
    before = _oracle({"allOf": [base], "properties": {"y": {"const": 1}}}, order=PropertyOrder.SCHEMA)
    assert after.accepts(b'{"y":1,"x":2}') and not after.accepts(b'{"x":2,"y":1}')
    assert before.accepts(b'{"x":2,"y":1}') and not before.accepts(b'{"y":1,"x":2}')


@pytest.mark.parametrize(
    "text",
    [
        '{"b": 1, "z": 2}',
        '{\n  "b": 1,\n  "z": 2\n}',
        '{"b":1,"z":2}',
        ' {"b" : 1 ,"z":[ 1, 2 ]}\n',
        '{\r\n\t"b": 1,\r\n\t"z": {}\r\n}',
    ],
)
def test_flexible_whitespace_takes_pretty_texts(text: str) -> None:
    assert _oracle(ORDERED, whitespace=Whitespace.FLEXIBLE).accepts(text.encode())


@pytest.mark.parametrize(
    "text", ['{"b":\n\n\n1,"z":2}', "{" + " " * 99 + '"b":1,"z":2}', '{"b":1,"z":2}' + "\n" * 9]
)
def test_whitespace_is_bounded(text: str) -> None:
    assert not _oracle(ORDERED, whitespace=Whitespace.FLEXIBLE).accepts(text.encode())


@pytest.mark.parametrize("text", ['{"b": 1,"z":2}', ' {"b":1,"z":2}', '{"b":1,"z":2} ', '{"b":1,"z":2}{'])
def test_compact_texts_have_no_whitespace_and_nothing_after_them(text: str) -> None:
    assert not _oracle(ORDERED).accepts(text.encode())


@pytest.mark.parametrize("text", ["1E5", "-0", "0.0e-1", "1e+307", "12345678901234567890", "-1.5E+9", "1.0"])
def test_a_free_number_has_every_form(text: str) -> None:
    assert _oracle({"type": "number"}).accepts(text.encode())


@pytest.mark.parametrize("text", ["01", "1.", ".5", "+1", "-", "1e", "1e999", "0x1", "NaN", "1" * 400])
def test_what_is_no_number_is_refused(text: str) -> None:
    assert not _oracle({"type": "number"}).accepts(text.encode())


def test_annotations_change_nothing() -> None:
    plain = _oracle({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    marked = _oracle(
        {"title": "<t>", "$comment": "::=", "type": "object", "required": ["a"],
         "properties": {"a": {"type": "string", "description": "odd \"quotes\" {} $ref", "default": 1}}}
    )  # fmt: skip
    for text in (b'{"a":"x"}', b'{"a":1}', b"{}", b'{"a":"","b":1}'):
        assert plain.accepts(text) is marked.accepts(text)
