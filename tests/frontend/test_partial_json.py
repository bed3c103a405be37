"""The incremental JSON parser: complete, monotone, strict."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgrt_frontend.partial_json import InvalidJson, PartialJson

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def grows(before: object, after: object) -> bool:
    """Whether `after` only adds to `before`."""
    if isinstance(before, str) and isinstance(after, str):
        return after.startswith(before)
    if isinstance(before, list) and isinstance(after, list):
        return len(before) <= len(after) and all(map(grows, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        return all(key in after and grows(value, after[key]) for key, value in before.items())
    return type(before) is type(after) and before == after


@given(VALUES, st.booleans(), st.booleans(), st.data())
def test_any_split_gives_the_value_and_only_grows(
    value: object, is_ascii: bool, is_indented: bool, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=2 if is_indented else None)
    parser = PartialJson()
    has_value, last = False, None
    position = 0
    while position < len(text):
        step = data.draw(st.integers(1, 7))
        parser.feed(text[position : position + step])
        position += step
        if has_value:
            assert grows(last, parser.value)
        has_value, last = parser.has_value, parser.value
    assert parser.close() == value
    assert parser.value == value


def test_values_appear_as_early_as_they_are_certain() -> None:
    parser = PartialJson()
    seen = []
    for character in '{"name":"Ann","age":41,"tags":["a"],"ok":true}':
        parser.feed(character)
        seen.append(parser.value)
    assert seen[0] == {}
    assert {"name": "An"} in seen
    assert {"name": "Ann", "age": 4} not in seen
    assert {"name": "Ann", "age": 41, "tags": [""]} in seen
    assert seen[-1] == {"name": "Ann", "age": 41, "tags": ["a"], "ok": True}
    assert parser.is_complete


def test_snapshots_do_not_change_later() -> None:
    parser = PartialJson()
    parser.feed('{"a":[1,')
    before = parser.value
    parser.feed("2]}")
    assert before == {"a": [1]}


def test_surrogate_pairs_join_across_pieces() -> None:
    parser = PartialJson()
    parser.feed('"\\ud83d')
    assert parser.value == ""
    parser.feed('\\ude00"')
    assert parser.close() == "😀"


@pytest.mark.parametrize(
    "text",
    [
        "{a",
        '{"a" 1',
        "[1,]",
        '{"a":1,}',
        "[1 2",
        "tru ",
        "01 ",
        "1 1",
        '"\n',
        '"\\x',
        '"\\u12g',
        "nul]",
        "]",
        "[}",
        "- ",
    ],
)
def test_what_cannot_become_json_is_refused(text: str) -> None:
    parser = PartialJson()
    with pytest.raises(InvalidJson, match="at character"):
        parser.feed(text)
        parser.close()


@pytest.mark.parametrize("text", ["", "[1", '{"a":', '"open', "tr"])
def test_closing_too_early_is_an_error(text: str) -> None:
    parser = PartialJson()
    parser.feed(text)
    with pytest.raises(InvalidJson):
        parser.close()


def test_deep_nesting_needs_no_stack() -> None:
    parser = PartialJson()
    parser.feed("[" * 100_000)
    parser.feed("]" * 100_000)
    assert parser.is_complete
