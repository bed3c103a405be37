"""Random schemas and values: the expression accepts exactly what `jsonschema` finds valid."""

from __future__ import annotations

import json
import os
from typing import Any

import jsonschema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from sgrt_grammars.constraint import JsonSchema, PropertyOrder
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


def _keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    maps = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(
                ["null", "boolean", "integer", "number", "string", "array", "object", ["object", "array"]]
            ),
            "minimum": st.integers(-2, 4),
            "exclusiveMaximum": st.sampled_from([3, 2.5]),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": COUNTS,
            "maxLength": COUNTS,
            "pattern": st.sampled_from(PATTERNS),
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "uniqueItems": st.booleans(),
            "prefixItems": some,
            "items": inner,
            "contains": inner,
            "maxContains": COUNTS,
            "properties": maps,
            "patternProperties": st.dictionaries(st.sampled_from(PATTERNS), inner, max_size=2),
            "additionalProperties": inner,
            "propertyNames": inner,
            "required": st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
            "minProperties": COUNTS,
            "maxProperties": COUNTS,
            "dependentRequired": st.dictionaries(
                st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True, max_size=2), max_size=2
            ),
            "dependentSchemas": maps,
            "unevaluatedProperties": inner,
            "unevaluatedItems": inner,
            "enum": st.lists(values, min_size=1, max_size=3),
            "const": values,
            "allOf": some,
            "anyOf": some,
            "oneOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    )


def _few(keywords: dict[str, Any], chosen: list[int]) -> dict[str, Any]:
    names = sorted(keywords)
    return {names[index % len(names)]: keywords[names[index % len(names)]] for index in chosen if names}


schemas = st.recursive(
    st.booleans()
    | _keywords(st.booleans()).flatmap(
        lambda one: st.lists(st.integers(0, 40), max_size=2).map(lambda chosen: _few(one, chosen))
    ),
    lambda inner: _keywords(inner).flatmap(
        lambda one: st.lists(st.integers(0, 40), min_size=1, max_size=4).map(lambda chosen: _few(one, chosen))
    ),
    max_leaves=5,
)


def _oracle(schema: object) -> Oracle | None:
    """None where the schema is refused or has no instance at all."""
    text = json.dumps(schema)
    try:
        return Oracle(schema_expression(JsonSchema(text=text, order=PropertyOrder.ANY)))
    except (UnsupportedConstraint, CompileLimitExceeded):
        return None


def _spelled(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=schemas, instances=st.lists(values, min_size=1, max_size=12))
def test_a_value_is_accepted_exactly_when_it_is_valid(schema: Any, instances: list[Any]) -> None:
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
    {"type": "array", "prefixItems": [{"type": "integer", "minimum": 3}, {"enum": ["u", "v"]}], "minItems": 1},
    {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{1,3}$"}, "uniqueItems": True, "maxItems": 4},
    {"type": "number", "minimum": -2.5, "maximum": 100, "multipleOf": 0.25},
    {"anyOf": [{"type": "string", "minLength": 2, "maxLength": 5}, {"type": "array", "contains": {"const": 1}}]},
]  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), schema=st.sampled_from(FIXED))
def test_generated_instances_of_a_schema_are_accepted(data: st.DataObject, schema: dict[str, Any]) -> None:
    value = data.draw(from_schema(schema))
    oracle = _oracle(schema)
    assert oracle is not None
    text = _spelled(value)
    if b"e" in text and "multipleOf" in schema:  # multiples are written in plain decimal
        return
    assert oracle.accepts(text), (schema, value)
