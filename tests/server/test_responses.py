"""/v1/responses: items and events, complete and paired."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_client import Client, PieceBackend, serving

from sgrt_frontend.call import StopReason

TOOL = {
    "type": "function",
    "name": "look_up_city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": True,
}
CALL = '<tool_call>\n{"name": "look_up_city", "arguments": {"city": "Bern"}}\n</tool_call>'


def respond(client: Client, **fields: object) -> httpx.Response:
    return client.post("/v1/responses", {"model": "stub", "input": "go", **fields})


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """The events, each named by its type and numbered in order."""
    items: list[dict[str, Any]] = []
    for block in response.text.strip().split("\n\n"):
        name, data = block.split("\n")
        item = json.loads(data.removeprefix("data: "))
        assert name == f"event: {item['type']}"
        assert item["sequence_number"] == len(items)
        items.append(item)
    return items


def check_pairs(events: list[dict[str, Any]]) -> None:
    """Every item and part is opened once, closed once, and holds what its deltas said."""
    assert [item["type"] for item in events[:2]] == ["response.created", "response.in_progress"]
    final = events[-1]["response"]
    opened: dict[int, dict[str, Any]] = {}
    said: dict[str, str] = {}
    parts: dict[str, int] = {}
    for event in events[2:-1]:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert event["output_index"] == len(opened), "items are opened in order"
            opened[event["output_index"]] = event["item"]
            said[event["item"]["id"]] = ""
        elif kind == "response.output_item.done":
            assert event["item"]["id"] == opened[event["output_index"]]["id"]
            assert event["item"] == final["output"][event["output_index"]]
        else:
            assert event["item_id"] == opened[event["output_index"]]["id"]
            if kind == "response.content_part.added":
                parts[event["item_id"]] = parts.get(event["item_id"], 0) + 1
            elif kind == "response.content_part.done":
                parts[event["item_id"]] -= 1
                assert event["part"]["text"] == said[event["item_id"]]
            elif kind.endswith(".delta"):
                said[event["item_id"]] += event["delta"]
            elif kind.endswith(".done"):
                assert event.get("text", event.get("arguments")) == said[event["item_id"]]
    assert len(final["output"]) == len(opened)
    assert set(parts.values()) <= {0}


def test_a_whole_response_has_its_message_and_usage(client: Client) -> None:
    body = respond(client).json()
    assert body["object"] == "response"
    assert body["id"].startswith("resp_")
    assert body["status"] == "completed"
    (item,) = body["output"]
    assert item["type"] == "message"
    assert item["content"][0]["text"] == "Hello world"
    assert body["usage"]["input_tokens_details"] == {"cached_tokens": 0}
    assert body["usage"]["total_tokens"] == body["usage"]["input_tokens"] + 2


def test_a_stream_ends_with_the_whole_response(client: Client) -> None:
    events = events_of(respond(client, stream=True))
    check_pairs(events)
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello world"


@settings(deadline=None, max_examples=25)
@given(
    parts=st.lists(st.sampled_from(["<think>so</think>", "Text. ", CALL]), min_size=1, max_size=4),
    size=st.integers(1, 20),
    limit=st.integers(1, 300),
)
def test_events_are_paired_whatever_the_model_says(parts: list[str], size: int, limit: int) -> None:
    text = "".join(parts)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    with serving(PieceBackend(pieces=pieces), reasoning_format="on") as client:
        fields: dict[str, object] = {"tools": [TOOL], "max_output_tokens": limit}
        events = events_of(respond(client, stream=True, **fields))
        check_pairs(events)
        whole = respond(client, **fields).json()
    streamed = events[-1]["response"]
    assert [_without_ids(item) for item in streamed["output"]] == [
        _without_ids(item) for item in whole["output"]
    ]
    assert streamed["status"] == whole["status"]


def test_a_response_cut_by_the_limit_is_incomplete() -> None:
    with serving(PieceBackend(pieces=["a"] * 9, reason=StopReason.LENGTH)) as client:
        body = respond(client, max_output_tokens=3).json()
        assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
        assert (
            events_of(respond(client, max_output_tokens=3, stream=True))[-1]["type"] == "response.incomplete"
        )


def test_a_failure_in_the_middle_is_an_event() -> None:
    with serving(PieceBackend(failure=RuntimeError("boom"), fails_after=1)) as client:
        last = events_of(respond(client, stream=True))[-1]
        assert last["type"] == "response.failed"
        assert last["response"]["error"] == {"code": "internal_error", "message": "internal error"}


def test_a_call_and_its_output_make_a_conversation() -> None:
    with serving(backend := PieceBackend(pieces=[CALL])) as client:
        first = respond(client, tools=[TOOL]).json()
        (call,) = first["output"]
        assert (call["type"], call["name"], json.loads(call["arguments"])) == (
            "function_call",
            "look_up_city",
            {"city": "Bern"},
        )
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        respond(client, tools=[TOOL], previous_response_id=first["id"], input=[output])
        prompt = bytes(backend.calls[-1].prompt).decode()
        assert "<user>go" in prompt
        assert CALL in prompt
        assert "sunny" in prompt


def test_items_in_the_input_are_one_turn_of_the_assistant(client: Client, backend: PieceBackend) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "look_up_city", "arguments": '{"city": "Bern"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
    ]
    assert respond(client, input=items, instructions="Be brief.").status_code == 200
    prompt = bytes(backend.calls[-1].prompt).decode()
    assert prompt.startswith("<system>Be brief.")
    assert f"<assistant>Let me see.\n{CALL}" in prompt


def test_responses_are_kept_for_their_owner_alone() -> None:
    with serving(PieceBackend(), api_keys=("one", "two")) as client:
        one, two = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))
        made = client.post("/v1/responses", {"input": "go"}, one).json()
        path = f"/v1/responses/{made['id']}"
        assert client.get(path, **one).json() == made
        assert client.get(path, **two).status_code == 404
        assert (
            client.post("/v1/responses", {"input": "x", "previous_response_id": made["id"]}, two).status_code
            == 404
        )
        assert client.request("DELETE", path, headers=two).status_code == 404
        assert client.request("DELETE", path, headers=one).json()["deleted"] is True
        assert client.get(path, **one).status_code == 404
        hidden = client.post("/v1/responses", {"input": "go", "store": False}, one).json()
        assert client.get(f"/v1/responses/{hidden['id']}", **one).status_code == 404


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
        ({"input": [{"content": "x"}]}, "input[0].role"),
        ({"background": True}, "background"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
    ],
)
def test_a_wrong_field_is_named(client: Client, fields: dict[str, object], param: str) -> None:
    response = respond(client, **fields)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def _without_ids(item: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in ("id", "call_id")}


def test_a_format_beside_a_demanded_call_is_no_contradiction(client: Client) -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
    body = {
        "model": "stub",
        "input": "go",
        "tools": [tool],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}},
    }
    assert client.post("/v1/responses", body).status_code == 200
