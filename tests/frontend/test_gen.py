"""gen and select as written: what is checked at the line that wrote them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from sgrt_frontend.errors import ConstraintError, InvalidRequest
from sgrt_frontend.gen import _CALL_OPTIONS, _ELSEWHERE, gen
from sgrt_frontend.sampling import SamplingOptions
from sgrt_frontend.select import select
from sgrt_grammars.constraint import AnyText, Choice, ContextFree, JsonSchema, Regex, StructuralTag, Tag, Text


class Person(BaseModel):
    name: str
    age: int


@pytest.mark.parametrize(
    ("options", "constraint"),
    [
        ({"regex": "[0-9]+"}, Regex(pattern="[0-9]+")),
        ({"choice": ["a", "b"]}, Choice(options=("a", "b"))),
        ({"grammar": 'start: "a"'}, ContextFree(text='start: "a"')),
        ({"constraint": Text(text="x")}, Text(text="x")),
        ({}, None),
    ],
)
def test_options_become_constraints(options: dict[str, Any], constraint: object) -> None:
    assert gen("x", **options).shape.constraint == constraint


def test_structural_tags_pass_through() -> None:
    tag = StructuralTag(
        triggers=("<f>",), tags=(Tag(begin=Text(text="<f>"), body=AnyText(), end=Text(text="</f>")),)
    )
    assert gen("x", structural_tag=tag).shape.constraint is tag


def test_schemas_may_be_types_or_mappings() -> None:
    typed, raw = (
        gen("x", schema=Person).shape.constraint,
        gen("x", schema={"type": "integer"}).shape.constraint,
    )
    assert isinstance(typed, JsonSchema) and '"additionalProperties": false' in typed.text
    assert raw == JsonSchema(text='{"type": "integer"}')


@pytest.mark.parametrize(
    "options",
    [
        {"regex": "a", "choice": ["a"]},
        {"schema": Person, "regex": "a"},
        {"type": int, "regex": "a"},
        {"type": int, "schema": Person},
    ],
)
def test_two_constraints_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="only one of"):
        gen("x", **options)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"max_tokens": 2, "min_tokens": 3}, "min_tokens"),
        ({"stop": ""}, "stop"),
        ({"n": 0}, "n"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"choice": []}, "choices"),
        ({"choice": ["a", "a"]}, "choices"),
        ({"choice": ["a", ""]}, "choices"),
        ({"choice": "ab"}, "choices"),
        ({"schema": {"const": object()}}, "schema"),
        ({"type": "int"}, "type"),
        ({"regex": 5}, "regex"),
        ({"constraint": "x"}, "constraint"),
        ({"max_token": 5}, "max_token"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        gen("x", **options)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("dtype", "write a type, as in gen"),
        ("json_schema", "write schema"),
        ("choices", "write choice"),
        ("max_new_tokens", "write max_tokens"),
        ("guided_regex", "write regex"),
        ("stop_at", "write stop"),
        ("max_token", "did you mean max_tokens"),
        ("temprature", "did you mean temperature"),
        ("gramar", "did you mean grammar"),
        ("tools", r"sgrt\.Toolbox\(tools\)\.gen.*sgrt\.react"),
        ("tool_choice", r"sgrt\.Toolbox"),
    ],
)
def test_options_of_other_tools_and_slips_are_told_their_right_name(name: str, hint: str) -> None:
    with pytest.raises(InvalidRequest, match=f"^{name}: gen has no such option.*{hint}"):
        gen("x", **{name: 1})  # type: ignore[call-overload]  # wrong on purpose


def test_what_hints_name_are_options() -> None:
    options = {*_CALL_OPTIONS, *SamplingOptions.__annotations__, "n", "schema"}
    for name, meant in _ELSEWHERE.items():
        assert meant.startswith("a type") or meant in options
        assert name not in options


def test_a_malformed_regex_is_refused_with_its_position() -> None:
    with pytest.raises(ConstraintError, match="not a regular expression") as caught:
        gen("x", regex="a(b")
    assert caught.value.pointer == "1:1"


def test_options_of_the_caller_are_never_changed() -> None:
    stop = ["\n"]
    gen("x", stop=stop)
    gen("x", str, stop=stop)
    assert stop == ["\n"]


@pytest.mark.parametrize(
    "options",
    [
        {"type": int, "stop": "\n"},
        {"regex": "a+", "stop": ["b"]},
        {"schema": Person, "stop_token_ids": [3]},
        {"heal": True, "stop": "x"},
    ],
)
def test_a_constraint_says_itself_where_its_text_ends(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"stop\w*: cannot be combined"):
        gen("x", **options)


@pytest.mark.parametrize("choices", [[], ["a", "a"], ["a", ""], "ab"])
def test_select_checks_its_choices(choices: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(InvalidRequest, match="choices"):
        select("x", choices)


def test_select_checks_its_options() -> None:
    with pytest.raises(InvalidRequest, match="temperature"):
        select("x", ["a"], temperature=-1)
    with pytest.raises(InvalidRequest, match="terminator"):
        select("x", ["a"], terminator="\n", open_ended=True)
