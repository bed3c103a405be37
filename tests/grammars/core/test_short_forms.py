"""Short forms: what completes an object is known without trying the orders its keys may come in."""

from __future__ import annotations

import json

import jsonschema
import pytest
from byte_vocabulary import BYTES, END

from sgrt_grammars import (
    GrammarCompiler,
    JsonSchema,
    Limits,
    PropertyOrder,
    empty_mask,
    is_allowed,
)
from sgrt_native import NativeUnavailable

FEW_STATES = Limits(max_states=20_000, operation_time_s=2.0)


def members(count: int) -> dict[str, object]:
    booleans = {f"member{index}": {"type": "boolean"} for index in range(count)}
    return {**booleans, "pattern": {"type": ["string", "null"], "pattern": "^a[bc]{2,5}$"}}


@pytest.mark.parametrize(
    "constraints",
    [
        {"required": ["member0", "member39"]},
        {"dependencies": {"member1": ["member38"]}},
        {"dependentRequired": {"member1": ["member2"], "member2": ["member3"], "member3": ["member39"]}},
        {"required": ["member1"], "dependentRequired": {"member1": ["member37"]}, "maxProperties": 20},
        {"minProperties": 9, "required": ["member20"]},
        {"required": ["pattern", "member3"]},
    ],
    ids=["required", "dependency", "chain", "bounded", "least size", "pattern"],
)
@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("is_native", [True, False])
def test_members_still_due_are_not_searched_for_in_every_order(
    constraints: dict[str, object], is_closed: bool, is_native: bool
) -> None:
    schema = {
        "type": "object",
        "properties": members(40),
        "additionalProperties": not is_closed,
        **constraints,
    }
    start = b'{"free":0,"member1":true,"m' if not is_closed else b'{"member1":true,"m'
    matcher = (
        compiler(is_native).compile(JsonSchema(text=json.dumps(schema), order=PropertyOrder.ANY)).matcher()
    )
    mask = empty_mask(BYTES.size)
    for byte in start:
        matcher.mask(mask)
        assert is_allowed(mask, byte)
        assert matcher.advance(byte)
    completion = bytes(token for token in matcher.shortest_completion() if token != END)
    jsonschema.validate(json.loads(start + completion), schema)


def compiler(is_native: bool) -> GrammarCompiler:
    try:
        return GrammarCompiler(BYTES, FEW_STATES, native=is_native)
    except NativeUnavailable as error:
        pytest.skip(f"no native automaton: {error}")
