"""Plain subschemas are written natively, straight from their keywords: the language is that of the general way."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgrt_grammars import (
    GrammarCompiler,
    GrammarError,
    JsonSchema,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [None], [256])
COMPILER = GrammarCompiler(VOCABULARY)
IN_PYTHON = GrammarCompiler(VOCABULARY, native=False)

CASES: list[tuple[object, list[str]]] = [
    ({"type": "string"}, ['"a\\n"', "1"]),
    ({"type": ["integer", "null"]}, ["12", "null", "1.5"]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ['"ab"', '"abcd"', '"a"']),
    ({"type": "string", "pattern": "^a+$", "maxLength": 2}, ['"aa"', '"aaa"', '"b"']),
    ({"type": "string", "format": "date"}, ['"2024-02-29"', '"2023-02-29"']),
    ({"type": "integer", "exclusiveMinimum": 1, "maximum": 12}, ["2", "1", "12", "13"]),
    ({"type": "number", "minimum": 1, "exclusiveMinimum": True}, ["1", "1.5"]),
    ({"type": "string", "enum": ["a", "ab"]}, ['"a"', '"ab"', '"b"']),
    ({"enum": ["a", 1]}, ['"a"', "1", "2"]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, ["[]", "[1]", "[1,2,3]"]),
    ({"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 2}, ["[]"]),
    ({"type": "array", "items": False}, ["[]", "[1]"]),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "ab": {}},
            "required": ["ab"],
            "x-note": 1,
        },
        ['{"a":"x","ab":1,"abc":[1]}', '{"a":"x"}', '{"ab":1,"ab":2}', '{"ab":1,"c":2,"c":3}'],
    ),
    (
        {"type": "object", "properties": {"a": True}, "additionalProperties": {"type": "integer"}},
        ['{"a":"x","b":1}', '{"b":"x"}', "{}"],
    ),
    ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, ['{"a":1}', '{"b":1}']),
    ({"type": "object", "properties": {"a": False}}, ['{"a":1}', '{"b":1}']),
    ({"type": "object", "properties": {}, "required": ["b"]}, ['{"b":1}', "{}"]),
    ({"type": "object"}, ['{"a":1,"a":2}', "{}"]),
    ({"properties": {"a": {}}, "minItems": 1}, ['{"a":1,"a":2}', "[]", "[1]", '"x"', "null", "1e5"]),
    ({"type": ["object", "null"], "required": ['q"\\']}, ['{"q\\"\\\\":1}', "null", "{}"]),
    (
        {"type": "object", "properties": {"a": False, "é/~": True}, "required": ["z", "é/~"]},
        ['{"é/~":1,"z":2,"a":0}'],
    ),
    ({"type": "object", "required": ["a"], "additionalProperties": False}, ["{}", '{"a":1}']),
    ({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"a": {}}}]}, ['"a"', '{"a":1}', "1"]),
    ({"oneOf": [{"type": "integer"}, {"enum": ["a", True]}, {"type": "array"}]}, ["1", '"a"', "true", "[1]"]),
    ({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]}, ["1", "2", "2.5", "1.5"]),
    ({"enum": ["a\u0001", '"/é', None, False, 3]}, ['"a\\u0001"', '"\\"/é"', "null", "false", "3"]),
    ({"enum": ["a", None, [1]], "type": ["string", "null"]}, ['"a"', "null", "[1]"]),
    ({"const": "x"}, ['"x"', '"y"']),
    ({"type": "string", "minLength": 3, "maxLength": 2}, ['"abc"']),
    ({"type": "array", "maxItems": 0}, ["[]", "[1]"]),
    ({"type": "array", "items": [{"type": "null"}], "minItems": 1}, ["[]", "[null,1]"]),
    (
        {
            "type": "object",
            "properties": {"next": {"$ref": "#"}, "b": {"$ref": "#/$defs/alias"}},
            "$defs": {"alias": {"$ref": "#/$defs/text"}, "text": {"type": "string", "description": "any"}},
        },
        ['{"next":{"next":{"b":"x"}}}', '{"b":1}', '{"next":1}'],
    ),
]


def masks(schema: object, text: str, whitespace: Whitespace) -> list[list[int]]:
    """The tokens allowed along a text, up to the first that is not."""
    constraint = JsonSchema(text=json.dumps(schema), whitespace=whitespace)
    try:
        matcher = COMPILER.compile(constraint).matcher()
    except Exception as error:  # noqa: BLE001 (a refusal is to be the same as well)
        return [[len(type(error).__name__)]]
    found: list[list[int]] = []
    row = empty_mask(VOCABULARY.size)
    for byte in text.encode():
        matcher.mask(row)
        found.append(allowed_tokens(row))
        if not matcher.advance(byte):
            return found
    matcher.mask(row)
    return [*found, allowed_tokens(row)]


def held(schema: object) -> dict[str, object]:
    """An object whose member `v` is of the schema."""
    return {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}


@pytest.mark.parametrize(("schema", "texts"), CASES, ids=[str(case[0])[:50] for case in CASES])
@pytest.mark.parametrize("whitespace", list(Whitespace))
def test_a_plain_schema_allows_what_it_allows_among_others(
    schema: object, texts: list[str], whitespace: Whitespace
) -> None:
    if isinstance(schema, dict) and "$defs" in schema:
        plain, other = schema, {**schema, "allOf": [True]}
    else:
        plain, other = held(schema), held({"allOf": [schema, True]})
        texts = [f'{{"v":{text}}}' for text in texts]
    for text in texts:
        assert masks(plain, text, whitespace) == masks(other, text, whitespace), text


def test_scalars_of_two_documents_are_one_state() -> None:
    def row_after(property_name: str) -> int:
        schema = {"type": "object", "properties": {property_name: {"type": "string", "minLength": 3}}}
        matcher = COMPILER.compile(JsonSchema(text=json.dumps(schema))).matcher()
        for byte in f'{{"{property_name}":'.encode():
            assert matcher.advance(byte)
        row = empty_mask(VOCABULARY.size)
        matcher.mask(row)
        return allowed_tokens(row)[0]

    assert row_after("one") == row_after("other") == ord('"')


def test_of_a_keyword_written_twice_the_last_counts() -> None:
    text = '{"type": "object", "properties": {"a": {"type": "string"}, "b": {}, "a": {"type": "null"}}}'
    rows = [empty_mask(VOCABULARY.size) for _ in range(2)]
    for compiler, row in zip((COMPILER, IN_PYTHON), rows, strict=True):
        matcher = compiler.compile(JsonSchema(text=text)).matcher()
        assert all(matcher.advance(byte) for byte in b'{"a":')
        matcher.mask(row)
    assert allowed_tokens(rows[0]) == allowed_tokens(rows[1]) == [ord("n")]


@pytest.mark.parametrize("member", ["z", "w", "a"])
@pytest.mark.parametrize("name", ["http://example.com/inner", "#inner"])
def test_references_mean_the_resource_that_they_stand_in(member: str, name: str) -> None:
    target: dict[str, object] = {"$ref": "#/definitions/t"}
    inner = {
        "$id": name,
        "type": "object",
        "properties": {
            "b": target,
            "c": {"type": "array", "items": {"type": "object", "properties": {"d": target}}},
        },
        "definitions": {"t": {"type": "integer"}},
    }
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": inner, "z": target, "w": {"$ref": "#/properties/a/definitions/t"}},
        "definitions": {"t": {"type": "null"}},
    }
    values = ['{"b":1}', '{"b":null}', '{"c":[{"d":1}]}', '{"c":[{"d":null}]}', "1", "null"]
    verdicts: list[list[bool]] = []
    for compiler in (COMPILER, IN_PYTHON):
        grammar = compiler.compile(JsonSchema(text=json.dumps(schema)))
        verdicts.append([])
        for value in values:
            matcher = grammar.matcher()
            text = f'{{"{member}":{value}}}'.encode()
            verdicts[-1].append(all(map(matcher.advance, text)) and matcher.is_accepting)
    is_named = not name.startswith("#")
    expected = {"z": [False] * 5 + [True], "w": [False] * 4 + [True, False]}
    assert verdicts[0] == verdicts[1]
    assert verdicts[0] == expected.get(member, [is_named, not is_named, is_named, not is_named, False, False])


SCALARS: list[Any] = [
    {"type": "string"},
    {"type": "integer"},
    {"type": ["number", "boolean"]},
    {"type": "string", "minLength": 1, "maxLength": 2},
    {"type": "string", "pattern": "^a+$"},
    {"type": "integer", "minimum": 3},
    {"enum": ["a", "ab", "b", None, True]},
    {"const": "a"},
    {"$ref": "#/$defs/again"},
    {"$ref": "#/$defs/missing~1from~0here"},
    {"description": "anything"},
    True,
    False,
]
"""Subschemas of the document below."""


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Lists, objects and choices of subschemas."""
    names = st.sampled_from(["a", "ab", "b", 'q"', "é", "~/"])
    objects = st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", ["object", "null"]]),
            "properties": st.dictionaries(names, inner, max_size=3),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": inner,
            "maxProperties": st.just(3),
        },
    )
    arrays = st.fixed_dictionaries(
        {"items": inner},
        optional={
            "type": st.sampled_from(["array", ["array", "string"]]),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 3),
            "uniqueItems": st.booleans(),
        },
    )
    choices = st.builds(
        lambda keyword, options: {keyword: options},
        st.sampled_from(["anyOf", "oneOf"]),
        st.lists(inner, min_size=1, max_size=3),
    )
    return objects | arrays | choices


@given(schema=st.recursive(st.sampled_from(SCALARS), grown, max_leaves=6), seed=st.integers(0, 1 << 30))
def test_random_plain_schemas_allow_the_same_in_both_automata(schema: object, seed: int) -> None:
    document = {
        "properties": {"v": schema},
        "required": ["v"],
        "type": "object",
        "$defs": {"again": schema, "missing/from~here": {"type": "null"}},
    }
    constraint = JsonSchema(text=json.dumps(document))
    try:
        matchers = [one.compile(constraint).matcher() for one in (COMPILER, IN_PYTHON)]
    except GrammarError as error:
        with pytest.raises(type(error)):
            IN_PYTHON.compile(constraint)
        return
    chance, rows = random.Random(seed), [empty_mask(VOCABULARY.size) for _ in matchers]
    for _ in range(30):
        for matcher, row in zip(matchers, rows, strict=True):
            matcher.mask(row)
        allowed = allowed_tokens(rows[0])
        assert allowed == allowed_tokens(rows[1])
        token = chance.choice(allowed)
        if token == VOCABULARY.end_token_ids[0]:
            return
        assert all(matcher.advance(token) for matcher in matchers)
