"""Arrays of unique items out of a list: each item once, and a known way to the end whatever is left."""

from __future__ import annotations

import itertools
import json

import jsonschema
import pytest
from byte_vocabulary import BYTES

from sgrt_grammars import (
    GrammarCompiler,
    JsonSchema,
    Limits,
    UnsatisfiableConstraint,
    empty_mask,
    is_allowed,
)

FEW_STATES = Limits(max_states=100_000, operation_time_s=60.0)
NAMES = [f"feature/{index}" for index in range(200)]


def array(values: list[object], **more: object) -> JsonSchema:
    schema = {"type": "array", "items": {"enum": values}, "uniqueItems": True, **more}
    return JsonSchema(text=json.dumps(schema))


@pytest.mark.parametrize("is_native", [True, False])
def test_many_choices_need_no_search(is_native: bool) -> None:
    size = 200 if is_native else 40
    compiler = GrammarCompiler(BYTES, FEW_STATES, native=is_native)
    matcher = compiler.compile(array([*NAMES[:size]], minItems=size - 10)).matcher()
    for byte in json.dumps(NAMES[: size - 20], separators=(",", ":")).encode()[:-1]:
        assert matcher.advance(byte)
    rest = json.loads(b"[0" + bytes(matcher.shortest_completion()))[1:]
    assert len(rest) == 10
    assert set(rest) <= set(NAMES[size - 20 : size])


def test_what_was_taken_is_masked_where_it_would_be_complete() -> None:
    matcher = GrammarCompiler(BYTES).compile(array(["ab", "ac", "b", 1, None])).matcher()
    mask = empty_mask(BYTES.size)
    for byte in b'["ab","a':
        assert matcher.advance(byte)
    matcher.mask(mask)
    assert [byte for byte in range(256) if is_allowed(mask, byte)] == [ord("c")]


@pytest.mark.parametrize("values", [["a", "b"], ["ä", "ö"], [1, 1.0, True]])
def test_more_items_than_values_are_refused(values: list[object]) -> None:
    with pytest.raises(UnsatisfiableConstraint):
        GrammarCompiler(BYTES).compile(array(values, minItems=len(values) + 1))


REPEATED: list[dict[str, object]] = [
    {"items": {"enum": ["a", 1, None]}, "not": {"uniqueItems": True}},
    {"items": {"enum": ["a", 1, None]}, "not": {"uniqueItems": True}, "maxItems": 2},
    {"items": {"enum": ["a", 1, None]}, "not": {"uniqueItems": True}, "minItems": 4},
    {"items": {"type": "boolean"}, "not": {"uniqueItems": True}, "minItems": 3, "maxItems": 3},
    {"items": {"enum": ["a", "b"]}, "if": {"uniqueItems": True}, "then": {"maxItems": 1}, "else": {"minItems": 3}},
    {"items": {"enum": ["a", 1]}, "oneOf": [{"uniqueItems": True}, {"minItems": 2}]},
]  # fmt: skip


@pytest.mark.parametrize("schema", REPEATED)
@pytest.mark.parametrize("is_native", [True, False])
def test_items_that_must_come_twice_do(schema: dict[str, object], is_native: bool) -> None:
    schema = {"type": "array", **schema}
    start = GrammarCompiler(BYTES, native=is_native).compile(JsonSchema(text=json.dumps(schema))).matcher()
    validator = jsonschema.Draft202012Validator(schema)
    for size in range(5):
        for items in itertools.product(["a", 1, None, True, False], repeat=size):
            matcher = start.fork()
            text = json.dumps(items, separators=(",", ":")).encode()
            is_accepted = all(matcher.advance(byte) for byte in text) and matcher.is_accepting
            assert is_accepted is validator.is_valid(list(items)), items
    assert validator.is_valid(json.loads(bytes(start.shortest_completion())))


@pytest.mark.parametrize("more", [{"maxItems": 1}, {"maxItems": 0}, {"items": False}])
def test_an_item_that_must_come_twice_where_there_is_no_room_is_unsatisfiable(
    more: dict[str, object],
) -> None:
    schema = {"type": "array", "items": {"enum": ["a", "b"]}, "not": {"uniqueItems": True}, **more}
    with pytest.raises(UnsatisfiableConstraint):
        GrammarCompiler(BYTES).compile(JsonSchema(text=json.dumps(schema)))
