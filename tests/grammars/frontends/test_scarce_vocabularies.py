"""Vocabularies that lack bytes: what they cannot spell is avoided or refused, and no walk ends in a dead end."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from sgrt_grammars import (
    Grammar,
    GrammarCompiler,
    JsonSchema,
    PropertyOrder,
    UnsatisfiableConstraint,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)
from tests.grammars.frontends.test_schema_walks import SCHEMAS, distinct

USUAL = b'{}[]":,truefalsn0123456789abcxyz.-+eE\\_ AB'
PIECES = [b'{"', b'":', b'"}', b'","', b"true", b"null", b"12", "é".encode(), b'"a":', b"ab"]
OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("an enumeration", {"enum": ["a", "é", 'b"c', "xyz", "0"]}),
    ("a pattern", {"type": "string", "pattern": "^(ab|é+|z{2,3}0)$"}),
    ("unique items", {"type": "array", "items": {"enum": ["a", "b", "é", 1, 2]}, "uniqueItems": True, "minItems": 2}),
    ("multiples", {"type": "number", "multipleOf": 0.25, "minimum": 1}),
    ("members without a declaration", {"type": "object", "required": ["k", "q"], "minProperties": 3}),
    ("a list of itself", {"anyOf": [{"type": "array", "items": {"$ref": "#"}, "minItems": 1}, {"const": "z9"}]}),
]  # fmt: skip


def scarce(chance: random.Random) -> Vocabulary:
    """Most bytes of JSON, some of the others, and longer tokens that may hold what no token of its own spells."""
    rest = chance.choice([0.05, 0.5, 1])
    tokens = [bytes([byte]) for byte in range(256) if chance.random() < (0.9 if byte in USUAL else rest)]
    tokens += [bytes(chance.choices(USUAL, k=chance.randint(2, 4))) for _ in range(40)]
    tokens = list(dict.fromkeys([*tokens, *PIECES]))
    return Vocabulary([*tokens, None], [len(tokens)])


def walked(grammar: Grammar, chance: random.Random, *, budgeted: bool) -> str:
    """Random tokens to the end, within a budget or (for 40 tokens) freely."""
    matcher, vocabulary = grammar.matcher(), grammar.vocabulary
    budget = len(matcher.shortest_completion()) + chance.randint(0, 30)
    row, tokens = empty_mask(vocabulary.size), list[int]()
    while True:
        limit = budget - len(tokens) if budgeted else None
        if not budgeted and len(tokens) >= 40:
            limit = len(matcher.shortest_completion())
        matcher.mask(row, limit)
        allowed = allowed_tokens(row)
        assert allowed, "a dead end"
        token = chance.choice(allowed)
        if token in vocabulary.end_token_ids:
            return b"".join(vocabulary.tokens[one] or b"" for one in tokens).decode()
        assert matcher.advance(token)
        tokens.append(token)


@pytest.mark.parametrize("seed", range(24))
def test_what_cannot_be_spelled_is_refused_or_avoided(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(2):
        name, schema = chance.choice(SCHEMAS + OTHERS)
        constraint = JsonSchema(
            text=json.dumps(schema),
            order=chance.choice(list(PropertyOrder)),
            whitespace=chance.choice(list(Whitespace)),
        )
        compiler = GrammarCompiler(scarce(chance), native=None if seed % 4 else False)
        try:
            grammar = compiler.compile(constraint)
        except UnsatisfiableConstraint:
            continue
        validator = jsonschema.Draft202012Validator(schema)
        for budgeted in (True, False):
            text = walked(grammar, chance, budgeted=budgeted)
            assert validator.is_valid(json.loads(text, object_pairs_hook=distinct)), (name, text)
