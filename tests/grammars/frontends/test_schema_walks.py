"""Random generations under tight budgets: every text ends in time, parses, holds no key twice and is valid."""

from __future__ import annotations

import json
import random
from functools import cache
from typing import Any

import jsonschema
import pytest

from sgrt_grammars import (
    GrammarCompiler,
    JsonSchema,
    PropertyOrder,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)

PIECES = ['{"', '":', '","', '",', '"}', "}}", "]}", "[{", "[]", "{}", "true", "null", "12", "-1", ".5", "e+", "\\u00",
          "\n  ", ", ", ": ", "name", "kind", "ab", "aa", "é", "日本", "2024-0", "\\\\", '\\"']  # fmt: skip
TOKENS = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in PIECES)]
END = len(TOKENS)
VOCABULARY = Vocabulary([*TOKENS, None], [END])
MAX_EXTRA = 50

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "born": {"type": "string", "format": "date"},
        "kind": {"enum": ["a", "ab", "abc", 1, None]},
    },
    "required": ["name", "born"],
}
SCHEMAS: list[tuple[str, dict[str, Any]]] = [
    ("an object", PERSON),
    ("closed, in a list", {"type": "array", "items": {**PERSON, "additionalProperties": False}, "minItems": 1, "maxItems": 3}),
    ("free keys of a pattern", {"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"},
     "type": "object", "minProperties": 2, "maxProperties": 4}),
    ("unique items of few", {"type": "array", "items": {"enum": ["a", "aa", "aaa", 1, 2.5]}, "uniqueItems": True, "minItems": 3}),
    ("unique items, the last ones of fewer", {"type": "array", "prefixItems": [{"type": "string", "maxLength": 1}], "minItems": 2,
     "items": {"enum": ["a", "b"]}, "maxItems": 3, "uniqueItems": True}),
    ("unique free items", {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 3, "maxItems": 5}),
    ("one of several", {"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}, {"type": "string",
     "pattern": "^a+b?$"}]}),
    ("a condition", {**PERSON, "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]}, "then": {"required": ["age"]}}),
    ("counted items", {"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 3, "maxItems": 5,
     "items": {"type": ["integer", "null"]}}),
    ("implied members", {**PERSON, "dependentRequired": {"age": ["kind"], "kind": ["age"]}, "required": ["name"]}),
    ("many members that must come", {"type": "object", "properties": {f"m{i}": {"enum": [i, "a"]} for i in range(24)},
     "required": [f"m{i}" for i in range(24) if i % 3], "dependentRequired": {"m1": ["m0"], "m2": ["m3"]}, "minProperties": 18}),
    ("a tree", {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"label": {"type": "string", "maxLength": 3},
     "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}}, "required": ["label"],
     "additionalProperties": False}}}),
    ("numbers between bounds", {"type": "array", "items": {"type": "number", "exclusiveMinimum": -2.5, "maximum": 1e3}, "maxItems": 3}),
    ("nothing but what is not", {"not": {"type": ["object", "array", "null"]}, "maxLength": 4}),
]  # fmt: skip


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY)


def walked(constraint: JsonSchema, chance: random.Random) -> str:
    """Random tokens until the end token is drawn."""
    matcher = compiler().compile(constraint).matcher()
    budget = len(matcher.shortest_completion()) + chance.randint(0, MAX_EXTRA)
    mask = empty_mask(VOCABULARY.size)
    tokens: list[int] = []
    while True:
        matcher.mask(mask, budget - len(tokens))
        allowed = allowed_tokens(mask)
        assert allowed, "a dead end"
        token = chance.choice(allowed)
        if token == END:
            break
        assert matcher.advance(token, budget - len(tokens))
        tokens.append(token)
    assert len(tokens) <= budget
    return b"".join(TOKENS[token] for token in tokens).decode()


def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object whose keys are distinct."""
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


@pytest.mark.parametrize("whitespace", list(Whitespace))
@pytest.mark.parametrize("order", list(PropertyOrder))
@pytest.mark.parametrize("schema", [one for _, one in SCHEMAS], ids=[name for name, _ in SCHEMAS])
def test_random_generations_are_valid_and_end_in_time(
    schema: dict[str, Any], order: PropertyOrder, whitespace: Whitespace
) -> None:
    validator = jsonschema.Draft202012Validator(
        schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    )
    constraint = JsonSchema(text=json.dumps(schema), order=order, whitespace=whitespace)
    for seed in range(12):
        text = walked(constraint, random.Random(seed))
        validator.validate(json.loads(text, object_pairs_hook=distinct))
