"""Masks of schemas against brute force: every token tried byte by byte, in states of random generations."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from sgrt_grammars import (
    GrammarCompiler,
    GrammarError,
    JsonSchema,
    Matcher,
    PropertyOrder,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)

PIECES = ['{"', '":', '","', '",', '"}', "}}", "]}", "[{", "[]", "{}", "true", "null", "12", "-1", ".5", "e+", "\\u00", "\n  ",
          ", ", ": ", "name", "kind", "ab", "aa", "é", "日本", "2024-0", "\\\\", '\\"', '":"', '":0', "aaa", "}]", "0]"]  # fmt: skip
CHARACTER = "é".encode()[:1]
TOKENS = [
    *(bytes([byte]) for byte in range(256)),
    *(piece.encode() for piece in PIECES),
    CHARACTER,
    b'"',
    b'a","',
]
END = len(TOKENS)
TOKENIZER = GrammarCompiler(Vocabulary([*TOKENS, None], [END]))
BYTES = GrammarCompiler(Vocabulary([*(bytes([byte]) for byte in range(256)), None], [256]))
TEXTS: list[dict[str, Any]] = [
    {"type": "string"},
    {"type": "string", "minLength": 1, "maxLength": 3},
    {"pattern": "^a+b?$", "type": "string"},
    {"pattern": "é|ab", "maxLength": 5, "type": "string"},
    {"format": "date", "type": "string"},
    {"enum": ["a", "ab", "abc", 1, None, {"a": [1]}]},
    {"type": "integer", "minimum": -20, "maximum": 130},
    {"type": "number", "multipleOf": 0.5, "maximum": 12},
    {"type": ["boolean", "null"]},
    {"not": {"type": ["object", "array", "string"]}},
]


def a_schema(chance: random.Random, depth: int = 0) -> dict[str, Any]:
    """Keywords of every kind, nested a little."""
    kind = chance.randrange(4 if depth == 3 else 10)
    if kind < 4:
        return chance.choice(TEXTS)
    inner = [a_schema(chance, depth + 1) for _ in range(3)]
    names = chance.sample(["a", "aa", "name", "kind", "é", 'q"', "aaa"], 3)
    members = {
        "type": "object",
        "properties": dict(zip(names, inner, strict=True)),
        "required": names[: chance.randrange(3)],
    }
    options: list[dict[str, Any]] = [
        members,
        {**members, "additionalProperties": False, "minProperties": 1},
        {
            "type": "object",
            "patternProperties": {"^a": inner[0]},
            "additionalProperties": inner[1],
            "maxProperties": 3,
        },
        {**members, "dependentRequired": {names[0]: [names[2]]}, "propertyNames": {"maxLength": 5}},
        {"type": "array", "items": inner[0], "minItems": chance.randrange(3), "maxItems": 3},
        {"type": "array", "items": {"enum": ["a", "aa", 1, 2.5]}, "uniqueItems": True, "minItems": 2},
        {"type": "array", "prefixItems": inner[:2], "contains": {"type": "integer"}, "maxContains": 2},
        {"anyOf": inner},
        {"oneOf": inner[:2]},
        {
            "allOf": [members, {"properties": {names[1]: {"type": ["string", "integer"]}}}],
            "unevaluatedProperties": False,
        },
        {**members, "if": {"properties": {names[0]: {"const": 1}}}, "then": {"required": [names[1]]}},
    ]
    return chance.choice(options)


def tried(matcher: Matcher) -> set[int]:
    """The tokens whose bytes are taken one after the other, and the end where the text may end."""
    found = {END} if matcher.is_accepting else set()
    for token, text in enumerate(TOKENS):
        taken = 0
        while taken < len(text) and matcher.advance(text[taken]):
            taken += 1
        if taken == len(text):
            found.add(token)
        matcher.rollback(taken)
    return found


def compare(seed: int, num_states: int) -> int:
    """Compare masks along one generation; how many."""
    chance = random.Random(seed)
    constraint = JsonSchema(
        text=json.dumps(a_schema(chance)),
        order=chance.choice(list(PropertyOrder)),
        whitespace=chance.choice(list(Whitespace)),
    )
    try:
        matcher, by_bytes = TOKENIZER.compile(constraint).matcher(), BYTES.compile(constraint).matcher()
    except GrammarError:
        return 0
    row = empty_mask(END + 1)
    for number in range(num_states):
        matcher.mask(row)
        allowed = allowed_tokens(row)
        assert set(allowed) == tried(by_bytes), (constraint, number)
        token = chance.choice(allowed)
        if token == END:
            return number + 1
        assert matcher.advance(token)
        for byte in TOKENS[token]:
            assert by_bytes.advance(byte)
    return num_states


@pytest.mark.parametrize("seed", range(40))
def test_masks_are_what_brute_force_finds(seed: int) -> None:
    compare(seed, 10)


@pytest.mark.slow
def test_masks_of_many_schemas_are_what_brute_force_finds() -> None:
    assert sum(compare(seed, 20) > 0 for seed in range(1000, 1250)) >= 200
