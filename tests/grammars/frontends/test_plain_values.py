"""Plain subschemas are written straight from their keywords: the language is that of the general way."""

from __future__ import annotations

import json

import pytest

from sgrt_grammars import (
    GrammarCompiler,
    JsonSchema,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)

VOCABULARY = Vocabulary([bytes([byte]) for byte in range(256)] + [None], [256])
COMPILER = GrammarCompiler(VOCABULARY)

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
