"""Stop strings end free text, and nothing that has a shape."""

from __future__ import annotations

import json

import pytest
from server_client import PieceBackend, serving

from sgrt.server.marks import MarkedText
from sgrt.server.parsed_output import ParsedReader
from sgrt_frontend.call import Chunk
from sgrt_frontend.stop_search import StopSearch
from sgrt_grammars.tools.formats import HERMES
from sgrt_grammars.tools.parser import OutputParser

TOOL = {"type": "function", "function": {"name": "now"}}
CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
SHAPES: dict[str, dict[str, object]] = {
    "json_schema": {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
    "json_object": {"response_format": {"type": "json_object"}},
    "regex": {"structured_outputs": {"regex": "[0-9]+"}},
    "choice": {"structured_outputs": {"choice": ["a1b", "c"]}},
}
SURROUNDINGS: dict[str, tuple[dict[str, object], dict[str, object]]] = {  # of server and request
    "plain": ({"reasoning_format": "none"}, {}),
    "thinking": ({"reasoning_format": "on"}, {}),
    "tools": ({}, {"tools": [TOOL]}),
    "thinking_tools": ({"reasoning_format": "on"}, {"tools": [TOOL]}),
    "tools_off": ({}, {"tools": [TOOL], "tool_choice": "none"}),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_shape_that_was_asked_for_is_never_cut_by_a_stop_string(
    shape: str, surroundings: str, stream: bool
) -> None:
    of_server, of_request = SURROUNDINGS[surroundings]
    with serving(PieceBackend(pieces=list('{"x":1}')), **of_server) as client:
        response = client.chat(stop=["1"], stream=stream, **of_request, **SHAPES[shape])
    assert (response.status_code, response.json()["error"]["param"]) == (400, "stop")


@pytest.mark.parametrize("surroundings", ["thinking", "tools"])
def test_responses_refuse_it_too(surroundings: str) -> None:
    of_server, _ = SURROUNDINGS[surroundings]
    tools = [{"type": "function", "name": "now"}] if surroundings == "tools" else []
    with serving(PieceBackend(pieces=list('{"x":1}')), **of_server) as client:
        body = {
            "input": "go",
            "stop": "1",
            "text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}},
            **({"tools": tools} if tools else {}),
        }
        response = client.post("/v1/responses", body)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "stop")


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_free_text_is_stopped_in_all_surroundings(surroundings: str) -> None:
    of_server, of_request = SURROUNDINGS[surroundings]
    with serving(PieceBackend(pieces=list("one two")), **of_server) as client:
        choice = client.chat(stop=["two"], **of_request).json()["choices"][0]
    assert (choice["message"]["content"], choice["stop_reason"]) == ("one ", "two")


@pytest.mark.parametrize("stop", ["\n", "now", "}", "tool_call"])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "now"}}])
def test_a_demanded_call_is_never_stopped(stop: str, choice: object) -> None:
    with serving(PieceBackend(pieces=[*CALL, "\n", *CALL])) as client:
        answer = client.chat(tools=[TOOL], tool_choice=choice, stop=[stop]).json()["choices"][0]
    calls = answer["message"]["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{}, {}]
    assert answer["stop_reason"] is None


def test_a_stop_string_does_not_reach_across_a_call() -> None:
    with serving(PieceBackend(pieces=["a ST", *CALL, "OP b"])) as client:
        answer = client.chat(tools=[TOOL], stop=["STOP"]).json()["choices"][0]
    assert answer["message"]["content"] == "a STOP b"
    assert answer["stop_reason"] is None


@pytest.mark.parametrize("surroundings", SURROUNDINGS)
def test_a_stop_string_before_min_tokens_is_text(surroundings: str) -> None:
    of_server, of_request = SURROUNDINGS[surroundings]
    with serving(PieceBackend(pieces=list("a cat, a dog, a cat.")), **of_server) as client:
        choice = client.chat(stop=["cat"], min_tokens=15, **of_request).json()["choices"][0]
    assert (choice["message"]["content"], choice["stop_reason"]) == ("a cat, a dog, a ", "cat")


@pytest.mark.parametrize("size", range(1, 21))
def test_min_tokens_are_counted_within_a_chunk(size: int) -> None:
    text = "a cat, a dog, a cat."
    for min_tokens in range(1, 20):
        reader = ParsedReader(
            OutputParser(HERMES, (), reads_reasoning=False),
            StopSearch(("cat",)),
            min_tokens=min_tokens,
            marked=MarkedText(PieceBackend(), {}),
            is_named=False,
            closes_calls_only=False,
            new_id=str,
        )
        shown, is_over = "", False
        for start in range(0, len(text), size):
            piece = text[start : start + size]
            if not is_over:
                deltas = reader.read(Chunk(index=0, token_ids=tuple(piece.encode()), text=piece))
                shown += "".join(delta.content for delta in deltas)
                is_over = any(delta.ending is not None for delta in deltas)
        assert shown == ("a " if min_tokens <= 5 else "a cat, a dog, a ")
