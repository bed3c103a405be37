"""What must not repeat: masks say of every token what `advance` says, in both automata, wherever a text stands."""

from __future__ import annotations

import json
from functools import cache

import pytest

from sgrt_grammars import (
    Grammar,
    GrammarCompiler,
    JsonSchema,
    Matcher,
    NumberSpelling,
    PropertyOrder,
    Vocabulary,
    Whitespace,
    allowed_tokens,
    empty_mask,
)
from sgrt_native import NativeUnavailable

END = 0
BYTES = [bytes([byte]) for byte in range(128)]
# Tokens that cross the ends of strings, values, containers and captures, several of them at once.
CROSSING = [
    b'"]', b'",', b'"}', b'":', b'","', b'"foo"', b',"foo"', b'foo"]', b'o"', b'o"]', b'"foo","bar"', b'"a":',
    b'"a":1', b'"a":1}', b'a":', b"}]", b"},", b"}]}", b"},{", b"{}", b",{}", b"{}]", b"},{}]", b"]]", b"],", b"],[",
    b"[]", b",[]", b"[]]", b"]]]", b"]}", b"1]", b"1,", b"1,1", b"1,1]", b"1}", b".0", b".0]", b"10", b"e0", b"e0]",
    b" ]", b" ,", b", ", b'" ]', b'" ,', b"\\u006", b"\\u006f", b'\\u006f"', b'\\u006f"]', b"[1],[1]", b'{"a":1},',
]  # fmt: skip
WHOLE = Vocabulary([None, *BYTES, *CROSSING], [END])

UNIQUE = {"uniqueItems": True}
STRINGS = {"type": "array", "items": {"type": "string"}, **UNIQUE}
NUMBERS = {"type": "array", "items": {"type": "number"}, **UNIQUE}
LISTS = {"type": "array", "items": {"type": "array"}, **UNIQUE}
LISTS_OF_UNIQUE = {"type": "array", "items": {"type": "array", **UNIQUE}, **UNIQUE}
OBJECTS = {"type": "array", "items": {"type": "object"}, **UNIQUE}
KNOWN_KEY = {
    "type": "array", "items": {"properties": {"a": {"type": "integer"}}, "type": "object"}, **UNIQUE,
}  # fmt: skip
FEW = {"type": "array", "items": {"type": "string", "maxLength": 1, "pattern": "^[ab]*$"}, **UNIQUE}
FIRST_FIXED = {"type": "array", "prefixItems": [{"type": "string"}, {"type": "object"}], **UNIQUE}
FREE_KEYS = {"type": "object", "additionalProperties": {"type": "integer"}}
SHORT_KEYS = {"type": "object", "patternProperties": {"^[ab]$": True}, "additionalProperties": False}

CASES = [
    (UNIQUE, '["foo","bar","foo"]'),
    (UNIQUE, '["foo" , "bar" , "foo" ]'),
    (UNIQUE, '["foo","fo","fooo","o",""]'),
    (UNIQUE, '["foo","f\\u006fo"]'),
    (UNIQUE, '["f\\u006fo","foo"]'),
    (UNIQUE, '["foo","f\\u006f"]'),
    (UNIQUE, '["\\"","\\\\","\\""]'),
    (UNIQUE, '["a",1,"1",true,null,[],{},"a"]'),
    (UNIQUE, '[1,"1",1.0]'),
    (UNIQUE, '[1,true,0,false]'),
    (UNIQUE, "[[],[]]"),
    (UNIQUE, "[{},{}]"),
    (UNIQUE, '[{"a":1},{"a":1}]'),
    (UNIQUE, '[{"a":[{}]},{"a":[{}]}]'),
    (UNIQUE, '[["foo"],"foo",["foo"]]'),
    (STRINGS, '["foo","bar","foo"]'),
    (STRINGS, '["foo" ,"bar" ,"foo" ]'),
    (STRINGS, '["bar","ba","barr"]'),
    (STRINGS, '["",""]'),
    (NUMBERS, "[1,10,1e1]"),
    (NUMBERS, "[1,1.0]"),
    (NUMBERS, "[0,-0,0.0]"),
    (NUMBERS, "[1,11,111,1]"),
    (LISTS, "[[1],[1,1],[1]]"),
    (LISTS, "[[],[[]],[]]"),
    (LISTS_OF_UNIQUE, "[[],[[]],[[]]]"),
    (LISTS_OF_UNIQUE, "[[1,2],[2,1],[1,1]]"),
    (LISTS_OF_UNIQUE, '[["a"],["b"],["a"]]'),
    (OBJECTS, "[{},{}]"),
    (OBJECTS, '[{"a":1},{"b":1},{"a":1.0}]'),
    (OBJECTS, '[{"a":1,"b":2},{"b":2,"a":1}]'),
    (OBJECTS, '[{"a":{}},{"a":{}}]'),
    (OBJECTS, '[{"a":1},{"a":1,"a":1}]'),
    (KNOWN_KEY, '[{"a":1},{"a":1}]'),
    (KNOWN_KEY, '[{"a":1},{"a":1,"b":1},{"a":1}]'),
    (FEW, '["a","b","","a"]'),
    (FEW, '["b","b"]'),
    (FIRST_FIXED, '["foo",{},"foo"]'),
    (FIRST_FIXED, '["foo",{},{}]'),
    (FREE_KEYS, '{"foo":1,"bar":2,"foo":3}'),
    (FREE_KEYS, '{"a":1,"aa":1,"":1,"a":1}'),
    (SHORT_KEYS, '{"a":1,"b":2}'),
    (SHORT_KEYS, '{"a":1,"a":2}'),
]  # fmt: skip


@cache
def _grammars(schema: str, whitespace: Whitespace) -> tuple[Grammar, Grammar]:
    constraint = JsonSchema(
        text=schema, order=PropertyOrder.ANY, whitespace=whitespace, numbers=NumberSpelling.ANY
    )
    in_python, native = _compilers()
    return in_python.compile(constraint), native.compile(constraint)


@cache
def _compilers() -> tuple[GrammarCompiler, GrammarCompiler]:
    return GrammarCompiler(WHOLE, native=False), GrammarCompiler(WHOLE, native=True)


def _mask(matcher: Matcher) -> list[int]:
    row = empty_mask(WHOLE.size)
    matcher.mask(row)
    return allowed_tokens(row)


def _taken(matcher: Matcher) -> list[int]:
    """The tokens `advance` takes, each taken back."""
    found: list[int] = []
    for token in range(WHOLE.size):
        if matcher.advance(token):
            matcher.rollback(1)
            found.append(token)
    return found


def _repeats(text: str) -> bool:
    """Whether an array of `text` repeats an item or an object a key."""
    is_repeated = False

    def form(value: object) -> object:
        nonlocal is_repeated
        if isinstance(value, dict):
            return ("object", frozenset((key, form(member)) for key, member in value.items()))
        if isinstance(value, list):
            items = [form(item) for item in value]
            is_repeated = is_repeated or len(set(items)) < len(items)
            return ("array", tuple(items))
        return (isinstance(value, bool), value)

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal is_repeated
        is_repeated = is_repeated or len(dict(pairs)) < len(pairs)
        return dict(pairs)

    form(json.loads(text, object_pairs_hook=members))
    return is_repeated


@pytest.mark.parametrize("whitespace", list(Whitespace), ids=lambda whitespace: whitespace.name.lower())
@pytest.mark.parametrize(("schema", "text"), CASES, ids=[f"{number}" for number in range(len(CASES))])
def test_masks_and_advance_agree_at_every_position(
    schema: dict[str, object], text: str, whitespace: Whitespace
) -> None:
    try:
        in_python, native = (g.matcher() for g in _grammars(json.dumps(schema), whitespace))
    except NativeUnavailable as error:
        pytest.skip(f"no native automaton: {error}")
    for position, byte in enumerate(text.encode()):
        allowed = _mask(native)
        assert allowed, text[:position]
        assert allowed == _taken(native), text[:position]
        assert allowed == _mask(in_python), text[:position]
        token = 1 + byte
        taken = in_python.advance(token)
        assert taken == (token in allowed)
        assert native.advance(token) == taken
        if not taken:
            assert _repeats(text) or " " in text
            return
    assert native.is_accepting
    assert in_python.is_accepting
    assert not _repeats(text)


BUDGETED = [
    (UNIQUE, '["foo","fo"]'),
    (STRINGS, '["foo","bar","fo"]'),
    (KNOWN_KEY, '[{"a":1},{"a":2}]'),
    (OBJECTS, '[{"a":1},{"b":1}]'),
    (LISTS_OF_UNIQUE, "[[1,2],[1,3]]"),
    (FREE_KEYS, '{"foo":1,"fo":2}'),
]


@pytest.mark.parametrize(("schema", "text"), BUDGETED, ids=[f"{number}" for number in range(len(BUDGETED))])
def test_a_tight_budget_leaves_only_tokens_whose_completion_does_not_repeat(
    schema: dict[str, object], text: str
) -> None:
    try:
        _, native = (g.matcher() for g in _grammars(json.dumps(schema), Whitespace.COMPACT))
    except NativeUnavailable as error:
        pytest.skip(f"no native automaton: {error}")
    for position, byte in enumerate(text.encode()):
        least = len(native.shortest_completion())
        for remaining in range(max(least, 1), least + 3):
            row = empty_mask(WHOLE.size)
            native.mask(row, remaining)
            for token in allowed_tokens(row):
                # Budgets do not foresee that an escape spells the rest of a recorded text.
                if token == END or b"\\" in (WHOLE.text(token) or b""):
                    continue
                probe = native.fork()
                assert probe.advance(token)
                assert len(probe.shortest_completion()) < remaining, (text[:position], WHOLE.text(token))
        assert native.advance(1 + byte)
