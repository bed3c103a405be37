"""Free text with triggers, tags, sequences, choices and special tokens."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    JsonSchema,
    OneOf,
    Regex,
    Repeat,
    Sequence,
    StructuralTag,
    Tag,
    Text,
    Token,
)
from sgrt_grammars.errors import InvalidConstraint
from sgrt_grammars.expression import SpecialToken
from sgrt_grammars.lowering import lower
from sgrt_grammars.vocabulary import Vocabulary
from tests.grammars.frontends.expression_oracle import Oracle

VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), None, None], [256])
CALL = Tag(begin=Text(text="<call>"), body=Regex(pattern="[a-z]+"), end=Text(text="</call>"))
CODE = Tag(begin=Text(text="<code py>"), body=AnyText(without=("</code>",)), end=Text(text="</code>"))


def _accepts(constraint: Constraint, text: str) -> bool:
    return Oracle(lower(constraint, VOCABULARY)).accepts(text.encode())


def _tags(**options: bool) -> StructuralTag:
    return StructuralTag(triggers=("<call", "<code"), tags=(CALL, CODE), **options)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain text, a < b",
        "<call>abc</call>",
        "so: <call>a</call> and <code py>x<y</code>.",
        "<cal",
        "<<call>a</call>",
    ],
)
def test_text_and_tags_mix(text: str) -> None:
    assert _accepts(_tags(), text)


@pytest.mark.parametrize(
    "text", ["<call", "<call>1</call>", "<call>a", "x <code js>", "<call>a</call><call>", "<code py></code"]
)
def test_a_trigger_opens_its_tag_and_nothing_else(text: str) -> None:
    assert not _accepts(_tags(), text)


def test_at_least_one_tag_may_be_required() -> None:
    assert not _accepts(_tags(required=True), "text")
    assert _accepts(_tags(required=True), "text <call>a</call> text")


def test_the_first_tag_may_end_the_text() -> None:
    assert _accepts(_tags(stop_after_first=True), "hm <call>a</call>")
    assert not _accepts(_tags(stop_after_first=True), "<call>a</call> more")
    assert _accepts(_tags(stop_after_first=True), "only text")
    assert not _accepts(_tags(stop_after_first=True, required=True), "only text")


@settings(max_examples=100, deadline=None)
@given(text=st.text("<cal>ode /p", max_size=24))
def test_free_text_is_any_text_without_a_trigger(text: str) -> None:
    if "<call" not in text and "<code" not in text:
        assert _accepts(_tags(), text)
    elif "</call>" not in text and "</code>" not in text:
        assert not _accepts(_tags(), text)


@settings(max_examples=100, deadline=None)
@given(text=st.text("ab]é", max_size=8), without=st.lists(st.text("ab]", min_size=1, max_size=3), max_size=2))
def test_any_text_excludes_what_it_names(text: str, without: list[str]) -> None:
    expected = not any(one in text for one in without)
    assert _accepts(AnyText(without=tuple(without)), text) is expected


def test_a_tag_may_begin_with_a_special_token() -> None:
    tag = Tag(begin=Token(token_id=257), body=JsonSchema(text='{"const": 1}'), end=Text(text="!"))
    expression = lower(StructuralTag(triggers=(), tags=(tag,)), VOCABULARY)
    found: list[SpecialToken] = []
    stack: list[object] = [expression]
    while stack:
        one = stack.pop()
        if isinstance(one, SpecialToken):
            found.append(one)
        for name in ("parts", "options", "body"):
            inside = getattr(one, name, ())
            stack.extend(inside if isinstance(inside, tuple) else (inside,))
    assert [one.token_id for one in found] == [257]
    assert Oracle(expression).accepts(b"text without a call")


def test_sequences_choices_and_repetitions_combine() -> None:
    number = Regex(pattern="[0-9]")
    row = Sequence(
        parts=(Text(text="["), Repeat(body=number, minimum=1, maximum=3, separator=", "), Text(text="]"))
    )
    either = OneOf(options=(row, Choice(options=("none", "all"))))
    assert all(_accepts(either, text) for text in ("[1]", "[1, 2, 3]", "none", "all"))
    assert not any(_accepts(either, text) for text in ("[]", "[1, 2, 3, 4]", "[1,2]", "nonely", ""))
    empty = Repeat(body=number, separator=",")
    assert _accepts(empty, "") and _accepts(empty, "1,2") and not _accepts(empty, "1,")


@pytest.mark.parametrize(
    "constraint",
    [
        Choice(options=()),
        Choice(options=("a", "")),
        OneOf(options=()),
        Repeat(body=Text(text="a"), minimum=3, maximum=2),
        AnyText(without=("",)),
        Token(token_id=999),
        StructuralTag(triggers=("<x",), tags=()),
        StructuralTag(triggers=("<x",), tags=(CALL,)),
        StructuralTag(
            triggers=("<",), tags=(Tag(begin=Regex(pattern="<"), body=Text(text="a"), end=Text(text="b")),)
        ),
    ],
)
def test_impossible_combinations_are_errors(constraint: Constraint) -> None:
    with pytest.raises(InvalidConstraint):
        lower(constraint, VOCABULARY)
