"""What a budget's mask allows can be taken, and the masks after it still close in time."""

from __future__ import annotations

import json
import random

import pytest

from sgrt_grammars import (
    GrammarCompiler,
    JsonSchema,
    Matcher,
    PropertyOrder,
    UnsatisfiableConstraint,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)

PIECES = ['","', ' ","', '":', '{"', '":"', '"}', "}}", ',"', "]}", '""', "data", "company", "name", "place", '":[', "[]",
          '"]', '],"', "{}", '":{"', '"},"', ",", "0}", ":0", "[{", "}]"]  # fmt: skip
TEXT: dict[str, object] = {"type": "string"}
COMPANY = {
    "type": "object",
    "properties": {"number": TEXT, "name": TEXT, "place": TEXT},
    "required": ["name", "place"],
}
RELATION = {
    "type": "object",
    "properties": {"company": COMPANY, "data": {"type": "array"}, "end": TEXT, "sample": TEXT},
    "required": ["data", "company", "sample"],
    "additionalProperties": False,
}


def vocabulary_of(pieces: list[str]) -> Vocabulary:
    tokens = [*(bytes([byte]) for byte in range(256)), *(piece.encode() for piece in pieces)]
    return Vocabulary([*tokens, None], [len(tokens)])


def check_promises(matcher: Matcher, remaining: int) -> list[int]:
    """Take every token that the mask allows; the tokens."""
    vocabulary = matcher.vocabulary
    row, after = empty_mask(vocabulary.size), empty_mask(vocabulary.size)
    matcher.mask(row, remaining)
    allowed = [token for token in allowed_tokens(row) if token not in vocabulary.end_token_ids]
    for token in allowed:
        fork = matcher.fork()
        assert fork.advance(token, remaining), vocabulary.tokens[token]
        fork = matcher.fork()
        assert fork.advance(token)
        fork.mask(after, remaining - 1)  # raises where nothing known is short enough
    return allowed


@pytest.mark.parametrize("order", list(PropertyOrder))
def test_a_token_keeps_the_completion_it_was_allowed_for(order: PropertyOrder) -> None:
    vocabulary = vocabulary_of(PIECES[:14])
    constraint = JsonSchema(text=json.dumps(RELATION), order=order, whitespace=Whitespace.FLEXIBLE)
    start = GrammarCompiler(vocabulary).compile(constraint).matcher()
    for byte in b'{"sample":"' if order is PropertyOrder.ANY else b'{"company":{"name":"':
        assert start.advance(byte)
    shortest = len(start.shortest_completion())
    for extra in range(4):
        check_promises(start.fork(), shortest + extra)


def test_a_token_that_spells_the_same_as_another_is_costed_the_same() -> None:
    vocabulary = vocabulary_of([",", '"', '","', '":0'])
    constraint = JsonSchema(
        text='{"type":"object","required":["data"],"properties":{"data":{"type":"integer"}}}'
    )
    start = GrammarCompiler(vocabulary).compile(constraint).matcher()
    for byte in b'{"data":0,",":0,"':
        assert start.advance(byte)
    shortest = len(start.shortest_completion())
    row = empty_mask(vocabulary.size)
    for extra in range(4):
        allowed = check_promises(start.fork(), shortest + extra) if shortest else []
        start.mask(row, shortest + extra)
        assert (ord(",") in allowed) == (256 in allowed)


def a_value(chance: random.Random, depth: int) -> dict[str, object]:
    plain: list[dict[str, object]] = [
        TEXT,
        {"type": "array"},
        {"type": "integer"},
        {"enum": ["data", "name", 1]},
    ]
    kind = chance.randrange(4 if depth == 2 else 6)
    if kind < 4:
        return plain[kind]
    if kind == 4:
        return {"type": "array", "items": a_value(chance, depth + 1), "minItems": chance.randrange(2)}
    names = chance.sample(["data", "company", "a", "bb", "ccc"], chance.randrange(1, 4))
    properties = {name: a_value(chance, depth + 1) for name in names}
    required = chance.sample(names, chance.randrange(len(names) + 1))
    closed = {"additionalProperties": False} if chance.random() < 0.5 else {}
    return {"type": "object", "properties": properties, "required": required, **closed}


@pytest.mark.parametrize("seed", range(60))
def test_promises_hold_along_random_walks(seed: int) -> None:
    chance = random.Random(seed)
    vocabulary = vocabulary_of(chance.sample(PIECES, chance.randrange(4, len(PIECES))))
    names = ["data", "sample", "x", "company"][: chance.randrange(2, 5)]
    schema = {
        "type": "object",
        "properties": {name: a_value(chance, 0) for name in names},
        "required": [name for name in names if chance.random() < 0.7],
    }
    order, whitespace = chance.choice(list(PropertyOrder)), chance.choice(list(Whitespace))
    try:
        grammar = GrammarCompiler(vocabulary).compile(
            JsonSchema(text=json.dumps(schema), order=order, whitespace=whitespace)
        )
    except UnsatisfiableConstraint:
        return
    matcher = grammar.matcher()
    remaining = len(matcher.shortest_completion()) + chance.randrange(12)
    while allowed := check_promises(matcher, remaining):
        likely = [token for token in allowed if token >= 256 or chance.random() < 0.2]
        assert matcher.advance(chance.choice(likely or allowed), remaining)
        remaining -= 1
