"""Types as shapes of text: the constraint a type asks for, and the way back to a value."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal, NotRequired, TypedDict

import pytest
from annotated_types import Ge, Le
from byte_vocabulary import BYTES, END
from pydantic import (
    UUID4,
    AnyUrl,
    Base64Str,
    BaseModel,
    Field,
    FilePath,
    HttpUrl,
    IPvAnyAddress,
    Json,
    PostgresDsn,
)

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.types.json_schema import adapter_of, schema_of, schema_text
from sgrt_frontend.types.shape import ValueMismatch, json_shape, shape_of
from sgrt_grammars import GrammarCompiler, allowed_tokens, empty_mask
from sgrt_grammars.constraint import Choice, JsonSchema, Regex


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    street: str
    number: int | None = None


@dataclass
class Point:
    x: float
    y: float


class Options(TypedDict):
    name: str
    size: NotRequired[int]


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


@pytest.mark.parametrize(
    ("annotation", "text", "value"),
    [
        (int, " 42", 42),
        (int, "-7", -7),
        (float, "3.25", 3.25),
        (float, "-2", -2.0),
        (bool, "true", True),
        (bool, " false", False),
        (str, "any text\n", "any text\n"),
        (Color, "red", Color.RED),
        (Level, "2", Level.HIGH),
        (Literal["yes", "no"], "no", "no"),
        (Literal[1, "a"], '"a"', "a"),
        (list[int], "[1,2]", [1, 2]),
        (dict[str, float], '{"a":1.5}', {"a": 1.5}),
        (tuple[int, str], '[1,"a"]', (1, "a")),
        (int | None, "null", None),
        (int | str, '"a"', "a"),
        (None, "null", None),
        (Address, '{"street":"A","number":3}', Address(street="A", number=3)),
        (Point, '{"x":1.0,"y":2}', Point(1.0, 2.0)),
        (Options, '{"name":"a"}', {"name": "a"}),
        (list[Options], '[{"name":"a","size":2}]', [{"name": "a", "size": 2}]),
        (Tree, '{"value":1,"children":[{"value":2}]}', Tree(value=1, children=[Tree(value=2)])),
        (Annotated[int, Ge(0), Le(9)], "7", 7),
        (date, '"2024-02-29"', date(2024, 2, 29)),
    ],
)
def test_text_becomes_a_value_of_the_type(annotation: object, text: str, value: object) -> None:
    parsed = (json_shape(None) if annotation is None else shape_of(annotation)).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("0", True),
        ("42", True),
        (" -42", True),
        ("42 ", True),
        ("42.", True),
        ("42 years", False),
        ("042", False),
        ("4" * 19, False),
        ("forty", False),
        ("", False),
        ("  4", False),
    ],
)
def test_integers_are_number_text_that_may_be_followed_by_more(text: str, is_allowed: bool) -> None:
    constraint = shape_of(int).constraint
    assert isinstance(constraint, Regex)
    assert (re.fullmatch(constraint.pattern, text) is not None) == is_allowed


def test_the_character_after_a_number_is_not_shown() -> None:
    for annotation in (int, float):
        shape = shape_of(annotation)
        assert isinstance(shape.constraint, Regex)
        for end in shape.after:
            assert re.fullmatch(shape.constraint.pattern, " -4" + end)
            assert shape.visible(" -4" + end) == " -4"
        assert shape.visible(" 42") == " 42"


def test_enums_and_literals_are_choices() -> None:
    assert shape_of(Color).constraint == Choice(options=("red", "blue"))
    assert shape_of(Literal["a", "b"]).constraint == Choice(options=("a", "b"))


def schema(annotation: object) -> dict[str, object]:
    constraint = json_shape(annotation).constraint
    assert isinstance(constraint, JsonSchema)
    parsed: dict[str, object] = json.loads(constraint.text)
    return parsed


def test_schemas_are_closed_and_without_idle_annotations() -> None:
    assert schema(Address) == {
        "type": "object",
        "properties": {
            "street": {"type": "string"},
            "number": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        },
        "required": ["street"],
        "additionalProperties": False,
    }


def test_recursive_types_keep_their_references() -> None:
    document = schema(Tree)
    assert "$defs" in document and '"$ref"' in json.dumps(document)


def test_properties_named_like_annotations_stay() -> None:
    class Book(BaseModel):
        title: str
        default: Literal["title"] = "title"

    properties = schema(Book)["properties"]
    assert isinstance(properties, dict) and set(properties) == {"title", "default"}


def test_descriptions_and_bounds_stay() -> None:
    class Rated(BaseModel):
        stars: int = Field(ge=1, le=5, description="one to five")

    text = json.dumps(schema(Rated))
    assert '"minimum": 1' in text and '"maximum": 5' in text and "one to five" in text


@pytest.mark.parametrize("annotation", [bytes, dict[int, str], type(lambda: None)])
def test_types_without_json_text_are_refused(annotation: object) -> None:
    with pytest.raises(InvalidRequest):
        json_shape(annotation)


def test_a_validator_that_refuses_the_value_is_a_mismatch() -> None:
    shape = shape_of(Address)
    with pytest.raises(ValueMismatch, match="not a valid Address"):
        shape.parse('{"street":1}')


NARROWED = [
    HttpUrl,
    AnyUrl,
    timedelta,
    UUID4,
    Decimal,
    Annotated[Decimal, Field(gt=0, max_digits=5, decimal_places=2)],
    Annotated[Decimal, Field(max_digits=3)],
    Annotated[Decimal, Field(ge=-2, le=2, multiple_of=0.25)],
]


@pytest.mark.parametrize("annotation", NARROWED, ids=str)
def test_what_the_schema_of_a_type_allows_reads_back_as_the_type(annotation: object) -> None:
    adapter = adapter_of(annotation)
    grammar = GrammarCompiler(BYTES).compile(JsonSchema(text=schema_text(schema_of(adapter))))
    draw = random.Random(0)
    mask = empty_mask(BYTES.size)
    for _ in range(60):
        matcher, text = grammar.matcher(), b""
        for remaining in range(grammar.minimum_tokens + draw.randrange(20), -1, -1):
            matcher.mask(mask, remaining + 1)
            token = draw.choice(allowed_tokens(mask))
            matcher.advance(token)
            if token == END:
                break
            text += bytes([token])
        adapter.validate_json(text)


@pytest.mark.parametrize(
    "annotation",
    [complex, Json[int], PostgresDsn, FilePath, IPvAnyAddress, re.Pattern[str], Base64Str, bytes],
    ids=str,
)
def test_types_that_no_grammar_holds_to_are_refused_also_inside_others(annotation: object) -> None:
    for outer in (annotation, list[annotation], dict[str, annotation]):  # type: ignore[valid-type]
        with pytest.raises(InvalidRequest, match=r"use|ask for"):
            schema_of(adapter_of(outer))
