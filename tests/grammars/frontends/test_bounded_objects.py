"""Objects of many members are completed without trying every set of them, whatever bars their end."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema
import pytest
from byte_vocabulary import BYTES

from sgrt_grammars import (
    GrammarCompiler,
    JsonSchema,
    Limits,
    PropertyOrder,
    empty_mask,
    is_allowed,
)

FEW_STATES = Limits(max_states=60_000, operation_time_s=60.0)
NAMES = [f"m{index:02d}" for index in range(30)]
CHAIN = {one: [other] for one, other in itertools.pairwise(NAMES)}
PAIRS = {one: [other] for one, other in zip(NAMES[::2], NAMES[1::2], strict=True)}
SOME_STRING = {"not": {"additionalProperties": {"type": "integer"}}}
"""At least one value that is no integer."""

SCHEMAS: list[tuple[str, dict[str, Any]]] = [
    ("implied by pairs, one required at the end", {"required": ["m29"], "dependentRequired": PAIRS}),
    ("implied in a chain, one required at the end", {"required": ["m29"], "dependentRequired": CHAIN}),
    ("implied backwards", {"required": ["m29"], "dependentRequired": {b: [a] for a, (b,) in CHAIN.items()}}),
    ("implied, of a least size", {"minProperties": 7, "dependentRequired": PAIRS}),
    ("implied, of a greatest size", {"maxProperties": 7, "required": ["m20"], "dependentRequired": PAIRS}),
    ("one of another kind", SOME_STRING),
    ("one of another kind, all required", {**SOME_STRING, "required": NAMES}),
    ("one of another kind, some required and implied", {**SOME_STRING, "required": ["m28"], "dependentRequired": PAIRS}),
    ("one of another kind, of a least size", {**SOME_STRING, "minProperties": 3}),
    ("one that matches a pattern and another kind", {"not": {"patternProperties": {"^m1": {"type": "integer"}}}, "minProperties": 3}),
    ("one of two members", {"oneOf": [{"required": ["m01"]}, {"required": ["m28"]}]}),
    ("one of several members", {"oneOf": [{"required": [name]} for name in NAMES[:5]]}),
    ("a condition about the last", {"if": {"required": ["m29"]}, "then": {"required": ["m00"]}, "else": {"required": ["m01"]}}),
    ("names that match", {"propertyNames": {"maxLength": 3}, "minProperties": 4}),
    ("nothing unevaluated", {"anyOf": [{"required": ["m03"]}, {"required": ["m27"]}], "unevaluatedProperties": False}),
]  # fmt: skip


def schema_of(more: dict[str, Any], *, is_closed: bool) -> dict[str, Any]:
    values = {"type": ["integer", "string"]}
    known = {"type": "object", "properties": dict.fromkeys(NAMES, values)}
    return {**known, **({"additionalProperties": False} if is_closed else {}), **more}


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("order", list(PropertyOrder))
@pytest.mark.parametrize("more", [one for _, one in SCHEMAS], ids=[name for name, _ in SCHEMAS])
def test_a_completion_is_known_after_few_states(
    more: dict[str, Any], order: PropertyOrder, is_closed: bool
) -> None:
    schema = schema_of(more, is_closed=is_closed)
    compiler = GrammarCompiler(BYTES, FEW_STATES)
    matcher = compiler.compile(JsonSchema(text=json.dumps(schema), order=order)).matcher()
    validator = jsonschema.Draft202012Validator(schema)
    mask = empty_mask(BYTES.size)
    text = b""
    for byte in b'{"m01":1,"m':
        matcher.mask(mask)
        if not is_allowed(mask, byte):
            break
        assert matcher.advance(byte)
        text += bytes([byte])
    validator.validate(json.loads(text + bytes(matcher.shortest_completion())))
