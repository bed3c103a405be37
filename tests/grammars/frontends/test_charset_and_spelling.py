"""Sets of characters, and how they are spelled in UTF-8 and in JSON strings."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgrt_grammars.regex.charset import EVERY_CHARACTER, CharSet
from sgrt_grammars.regex.classes import ignoring_case, python_class, unicode_property
from sgrt_grammars.regex.language import ANY_TEXT, characters, repeat, word
from sgrt_grammars.regex.spelling import utf8_characters
from sgrt_grammars.schema.json_text import string
from tests.grammars.frontends.expression_oracle import Oracle

characters_strategy = st.characters(exclude_categories=["Cs"])
sets = st.lists(st.tuples(characters_strategy, characters_strategy), max_size=5).map(
    lambda pairs: CharSet.from_ranges((min(map(ord, pair)), max(map(ord, pair))) for pair in pairs)
)


@given(one=sets, other=sets, character=characters_strategy)
def test_set_operations_are_those_of_membership(one: CharSet, other: CharSet, character: str) -> None:
    assert (character in one | other) == (character in one or character in other)
    assert (character in one & other) == (character in one and character in other)
    assert (character in ~one) != (character in one)
    assert (character in one - other) == (character in one and character not in other)
    assert one.size + (~one).size == EVERY_CHARACTER.size


@settings(deadline=None)
@given(members=sets, character=characters_strategy)
def test_utf8_accepts_exactly_the_members(members: CharSet, character: str) -> None:
    assert Oracle(utf8_characters(members)).accepts(character.encode()) is (character in members)


@settings(max_examples=60, deadline=None)
@given(members=sets, character=characters_strategy)
def test_json_strings_of_a_set_are_accepted_in_their_canonical_spelling(
    members: CharSet, character: str
) -> None:
    text = json.dumps(character, ensure_ascii=False).encode()
    assert Oracle(string(characters(members))).accepts(text) is (character in members)


@pytest.mark.parametrize(
    "text",
    [
        '"a"',
        r'"\u0041\/\"\\"',
        r'"\ud83d\ude00"',
        '"\x7f"',
        r'"\u00e9é"',
        r'"\uD83D\uDE00x"',
        r'"\b\f\n\r\t"',
        '""',
    ],
)
def test_free_strings_have_every_legal_escape(text: str) -> None:
    assert Oracle(string(ANY_TEXT)).accepts(text.encode())


@pytest.mark.parametrize(
    "text", ['"\t"', r'"\x41"', r'"\ud800"', r'"\udc00\ud800"', r'"\u12"', '"a', 'a"', r'"\"']
)
def test_what_is_no_json_string_is_refused(text: str) -> None:
    assert not Oracle(string(ANY_TEXT)).accepts(text.encode())


def test_bytes_that_are_no_utf8_are_refused() -> None:
    for raw in (b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x82"'):
        assert not Oracle(string(ANY_TEXT)).accepts(raw)


def test_lengths_count_characters_whatever_their_spelling() -> None:
    oracle = Oracle(string(repeat(characters(EVERY_CHARACTER), 2, 3)))
    for text in (r'"\n\n"', '"😀😀😀"', r'"\ud83d\ude00a"', '"éé"'):
        assert oracle.accepts(text.encode())
    for text in (r'"\n"', '"😀😀😀😀"', r'"\ud83d\ude00"'):
        assert not oracle.accepts(text.encode())


def test_fixed_texts_have_one_spelling() -> None:
    oracle = Oracle(string(word('a"é\x01')))
    assert oracle.accepts('"a\\"é\\u0001"'.encode())
    assert not oracle.accepts(b'"\\u0061\\"\\u00e9\\u0001"')


@pytest.mark.parametrize("letter", ["d", "w", "s"])
def test_pythons_classes_are_those_of_re(letter: str) -> None:
    members = python_class(letter)
    for code in (*range(0x3000), *range(0x1D400, 0x1D800), 0x3FFFF, 0xE0100):
        if not 0xD800 <= code < 0xE000:
            assert (chr(code) in members) is bool(re.fullmatch(rf"\{letter}", chr(code)))


@pytest.mark.parametrize("character", ["k", "K", "\u212a", "\u017f", "ß", "Σ", "ς", "é", "1"])
def test_case_is_ignored_as_re_ignores_it(character: str) -> None:
    members = ignoring_case(CharSet.of(character))
    for code in (*range(0x600), *range(0x1E00, 0x2200)):
        assert (chr(code) in members) is bool(re.fullmatch(re.escape(character), chr(code), re.IGNORECASE))


def test_unknown_properties_are_not_guessed() -> None:
    assert unicode_property("Script", "Greek") is None
    assert unicode_property("Emoji", None) is None
    lower = unicode_property("General_Category", "Lowercase_Letter")
    assert lower is not None
    assert "a" in lower
