"""What no vocabulary could keep is refused at the line of `gen`; what a backend would take is taken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

import sgrt
from sgrt.errors import ConstraintError
from sgrt_frontend import constraint_check
from sgrt_frontend.gen import gen
from sgrt_grammars.constraint import ContextFree, JsonSchema, Sequence, StructuralTag, Tag, Text, Token

Schema = Mapping[str, object]


class Impossible(BaseModel):
    age: Annotated[int, Field(ge=5, le=3)]


def inside(schema: Schema) -> Schema:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"]}


CONTRADICTION: Schema = {"type": "integer", "minimum": 5, "maximum": 3}
REMOTE: Schema = {"$ref": "https://example.org/schema"}
NOWHERE: Schema = {"$ref": "#/$defs/none"}
LOST_TAG = Tag(begin=Text("<a>"), body=JsonSchema(json.dumps(NOWHERE)), end=Text("</a>"))
BAD_OPERAND: Schema = {"type": "string", "minLength": "x"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grammar": "start: foo"}, "^grammar: .*'foo' used but not defined"),
        ({"grammar": 'start: "a'}, "^grammar: .*does not parse"),
        ({"grammar": "root ::= foo"}, "^grammar: .*foo"),
        ({"grammar": ContextFree('a: "b"', start="c")}, "^grammar: .*c"),
        ({"schema": CONTRADICTION}, "^schema: no value is valid"),
        ({"schema": inside(CONTRADICTION)}, "^schema: no value is valid"),
        ({"schema": json.dumps(CONTRADICTION)}, "^schema: no value is valid"),
        ({"schema": inside(REMOTE)}, r"^schema: \$ref at /properties/a/\$ref: .*never fetched"),
        ({"schema": inside(NOWHERE)}, r"^schema: \$ref points to nothing"),
        ({"schema": inside(BAD_OPERAND)}, "^schema: minLength must be"),
        ({"schema": Impossible}, "^schema: no value is valid"),
        ({"type": Impossible}, "^type: no value is valid"),
        ({"type": CONTRADICTION}, "^type: no value is valid"),
        ({"constraint": JsonSchema(json.dumps(REMOTE))}, "^constraint: .*never fetched"),
        ({"constraint": Sequence((Text("a"), ContextFree("start: foo")))}, "^constraint: .*'foo'"),
        (
            {"structural_tag": StructuralTag(triggers=("<a",), tags=(LOST_TAG,))},
            "^structural_tag: .*points to nothing",
        ),
    ],
)
def test_what_no_vocabulary_could_keep_is_refused_at_its_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstraintError, match=message) as raised:
        gen("x", **options)
    assert raised.value.param == next(iter(options))


def test_the_place_in_a_schema_is_told() -> None:
    with pytest.raises(ConstraintError) as raised:
        gen("x", schema=inside(BAD_OPERAND))
    assert raised.value.pointer == "/properties/a/minLength"


def test_ids_of_special_tokens_wait_for_the_vocabulary() -> None:
    assert gen("x", constraint=Sequence((Token(10**6), Text("a")))).name == "x"


def test_equal_constraints_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    class Lowering:
        @staticmethod
        def lower(constraint: object, vocabulary: None) -> None:
            looked.append(constraint)

    monkeypatch.setattr(constraint_check, "import_module", lambda name: Lowering)
    schema = {"type": "object", "properties": {"only in this test": {"type": "string"}}}
    for _ in range(3):
        gen("x", schema=dict(schema))
    constraint_check._lower_once.cache_clear()  # what was not really looked at must not count as good
    assert len(looked) == 1


def test_a_program_is_refused_at_the_line_of_gen_even_where_nobody_reads_the_value() -> None:
    passed: list[str] = []

    @sgrt.function
    def program(s: sgrt.State) -> None:
        s += "One: "
        passed.append("before")
        s += sgrt.gen("x", grammar="start: foo")
        passed.append("behind")

    with pytest.raises(ConstraintError, match="'foo' used but not defined"):
        program.on(sgrt.ScriptedBackend(["a"])).run()
    assert set(passed) == {"before"}


def test_a_plan_goes_on_behind_a_constraint_that_is_made_of_unknown_text() -> None:
    @sgrt.function
    def program(s: sgrt.State) -> None:
        s += "One: " + sgrt.gen("word", max_tokens=3)
        s += "Two: " + sgrt.gen("x", schema={"enum": [s["word"]], "const": "hi"})
        s += "Three: " + sgrt.gen("y", max_tokens=3)

    program = program.on(sgrt.ScriptedBackend(["hi", '"hi"', "there"]))
    (path,) = program.plan().items[0]
    assert [call.variable for call in path.calls] == ["word", "x", "y"]
    assert program.run()["y"] == "there"
