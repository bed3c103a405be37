"""Random schemas and values: the expression accepts exactly what `jsonschema` finds valid."""

from __future__ import annotations

import json
import os
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from sgrt_grammars.constraint import JsonSchema, NumberSpelling, PropertyOrder
from sgrt_grammars.errors import CompileLimitExceeded, UnsatisfiableConstraint, UnsupportedConstraint
from sgrt_grammars.schema.lower import schema_expression
from tests.grammars.frontends.expression_oracle import Oracle

EXAMPLES = int(os.environ.get("SGRT_FUZZ_EXAMPLES", "100"))
NAMES = ["a", "b", "ab", "x"]
PATTERNS = ["^a", "b$", "a|x", "^.{1,2}$", "^(?!a)", "[^b]"]
COUNTS = st.integers(0, 3)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 7),
    st.sampled_from([0.5, 1.0, 2.5, -1.25]),
    st.sampled_from(["", *NAMES]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    ),
    max_leaves=6,
)


def _operands(inner: st.SearchStrategy[Any]) -> dict[str, st.SearchStrategy[Any]]:
    maps = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    some = st.lists(inner, min_size=1, max_size=2)
    kinds = ["null", "boolean", "integer", "number", "string", "array", "object", ["object", "array"]]
    lists = st.dictionaries(
        st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=2), max_size=2
    )
    found: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(kinds),
        "minimum": st.integers(-2, 4),
        "exclusiveMaximum": st.sampled_from([3, 2.5]),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "pattern": st.sampled_from(PATTERNS),
        "uniqueItems": st.booleans(),
        "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
        "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
        "dependentRequired": lists,
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
    }
    bounds = (
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "maxContains",
        "minProperties",
        "maxProperties",
    )
    single: tuple[str, ...] = (
        "items",
        "contains",
        "additionalProperties",
        "propertyNames",
        "unevaluatedProperties",
    )
    single += ("unevaluatedItems", "not", "if", "then", "else")
    found |= dict.fromkeys(bounds, COUNTS) | dict.fromkeys(single, inner)
    found |= dict.fromkeys(("prefixItems", "allOf", "anyOf", "oneOf"), some)
    return found | dict.fromkeys(("properties", "dependentSchemas"), maps)


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Any:  # noqa: ANN401  # any JSON
    """A schema of a few keywords, nested `depth` deep."""
    if depth == 0 or draw(st.integers(0, 9)) == 0:
        return draw(st.booleans())
    operands = _operands(schemas(depth - 1))
    chosen = draw(st.lists(st.sampled_from(sorted(operands)), min_size=1, max_size=4, unique=True))
    return {name: draw(operands[name]) for name in chosen}


def _oracle(schema: object) -> Oracle | None:
    """None where the schema is refused or has no instance at all."""
    text = json.dumps(schema)
    try:
        return Oracle(
            schema_expression(JsonSchema(text=text, order=PropertyOrder.ANY, numbers=NumberSpelling.ANY))
        )
    except (UnsupportedConstraint, CompileLimitExceeded):
        return None


def _spelled(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(schema=schemas(), instances=st.lists(values, min_size=1, max_size=12))
def test_a_value_is_accepted_exactly_when_it_is_valid(
    schema: dict[str, Any] | bool, instances: list[Any]
) -> None:
    validator = jsonschema.Draft202012Validator(schema)
    try:
        oracle = _oracle(schema)
    except UnsatisfiableConstraint:
        assert not any(validator.is_valid(value) for value in instances)
        return
    for value in instances if oracle is not None else ():
        assert oracle is not None
        assert oracle.accepts(_spelled(value)) is validator.is_valid(value), (schema, value)


FIXED: list[dict[str, Any]] = [
    {"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": 3}, {"enum": ["u", "v"]}]}, "minItems": 1},
    {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{1,3}$"}, "uniqueItems": True, "maxItems": 4},
    {"type": "number", "minimum": -2.5, "maximum": 100, "multipleOf": 0.25},
    {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 5}, {"type": "array", "contains": {"const": 1}}]},
]  # fmt: skip


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(data=st.data(), schema=st.sampled_from(FIXED))
def test_generated_instances_of_a_schema_are_accepted(data: st.DataObject, schema: dict[str, Any]) -> None:
    value = data.draw(from_schema(schema))
    oracle = _oracle(schema)
    assert oracle is not None
    text = _spelled(value)
    if b"e" in text and "multipleOf" in schema:  # multiples are written in plain decimal
        return
    assert oracle.accepts(text), (schema, value)
