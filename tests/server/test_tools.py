"""Tool calls and thoughts through the chat endpoint."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_client import PieceBackend, events, serving

from sgrt_frontend.call import StopReason
from sgrt_frontend.errors import InvalidRequest
from sgrt_grammars.constraint import JsonObject, OneOf

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up_city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
NOW = {"type": "function", "function": {"name": "now"}}
FIRST = '<tool_call>\n{"name": "look_up_city", "arguments": {"city": "Bern", "days": 3}}\n</tool_call>'
SECOND = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
NAMED = {"type": "function", "function": {"name": "look_up_city"}}


def collected(stream: list[dict[str, Any]]) -> dict[str, Any]:
    """What a client makes of a stream, as the libraries put it together."""
    content, reasoning, finish = "", "", []
    calls: dict[int, dict[str, Any]] = {}
    for item in stream:
        for choice in item["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            reasoning += delta.get("reasoning") or ""
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    assert call["index"] not in calls, "a call has one head"
                    assert call["type"] == "function"
                    calls[call["index"]] = {
                        "id": call["id"],
                        "name": call["function"]["name"],
                        "arguments": "",
                    }
                calls[call["index"]]["arguments"] += call["function"]["arguments"]
            if choice["finish_reason"]:
                finish.append(choice["finish_reason"])
    return {"content": content, "reasoning": reasoning, "calls": calls, "finish": finish}


def test_two_calls_in_a_stream_have_their_own_index_id_and_arguments() -> None:
    with serving(PieceBackend(pieces=list(FIRST + "\n" + SECOND))) as client:
        got = collected(events(client.chat(tools=[TOOL, NOW], stream=True)))
    assert list(got["calls"]) == [0, 1]
    assert got["calls"][0]["id"] != got["calls"][1]["id"]
    assert json.loads(got["calls"][0]["arguments"]) == {"city": "Bern", "days": 3}
    assert [call["name"] for call in got["calls"].values()] == ["look_up_city", "now"]
    assert got["finish"] == ["tool_calls"]
    assert got["content"] == ""


def test_arguments_arrive_while_they_are_written() -> None:
    with serving(PieceBackend(pieces=list(FIRST))) as client:
        stream = events(client.chat(tools=[TOOL], stream=True))
    pieces = [
        call["function"]["arguments"]
        for item in stream
        for call in item["choices"][0]["delta"].get("tool_calls", [])  # type: ignore[index]  # parsed JSON
    ]
    assert len(pieces) > 10


def test_content_is_null_beside_a_call_and_text_before_it_is_kept() -> None:
    with serving(PieceBackend(pieces=[FIRST])) as client:
        choice = client.chat(tools=[TOOL]).json()["choices"][0]
        assert choice["message"]["content"] is None
        assert choice["finish_reason"] == "tool_calls"
        assert isinstance(choice["message"]["tool_calls"][0]["function"]["arguments"], str)
    with serving(PieceBackend(pieces=["Let me see.\n", FIRST])) as client:
        assert client.chat(tools=[TOOL]).json()["choices"][0]["message"]["content"] == "Let me see."


@pytest.mark.parametrize(
    ("choice", "finish"), [("auto", "tool_calls"), ("required", "tool_calls"), (NAMED, "stop")]
)
@pytest.mark.parametrize("stream", [False, True])
def test_finish_reasons_of_calls_are_the_same_in_streams_and_whole_answers(
    choice: object, finish: str, stream: bool
) -> None:
    with serving(PieceBackend(pieces=[FIRST])) as client:
        response = client.chat(tools=[TOOL], tool_choice=choice, stream=stream)
        if stream:
            assert collected(events(response))["finish"] == [finish]
        else:
            assert response.json()["choices"][0]["finish_reason"] == finish


def test_tools_that_may_not_be_called_are_text() -> None:
    with serving(backend := PieceBackend(pieces=[FIRST])) as client:
        message = client.chat(tools=[TOOL], tool_choice="none").json()["choices"][0]["message"]
        assert "tool_calls" not in message
        assert message["content"] == FIRST
        assert backend.calls[0].constraint is None


def test_stop_strings_end_the_answer_and_leave_arguments_alone() -> None:
    with serving(PieceBackend(pieces=list(FIRST))) as client:
        choice = client.chat(tools=[TOOL], stop=["Bern"]).json()["choices"][0]
        assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])["city"] == "Bern"
    backend = PieceBackend(pieces=list("an answer STOP and more"))
    with serving(backend) as client:
        choice = client.chat(tools=[TOOL], stop=["STOP"]).json()["choices"][0]
        assert (choice["message"]["content"], choice["stop_reason"]) == ("an answer ", "STOP")
        assert backend.num_running == 0


def test_a_demanded_call_and_a_constraint_exclude_each_other() -> None:
    with serving(PieceBackend()) as client:
        response = client.chat(tools=[TOOL], tool_choice=NAMED, response_format={"type": "json_object"})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "tool_choice")


def test_an_answer_may_be_constrained_beside_tools() -> None:
    with serving(backend := PieceBackend(pieces=["{}"])) as client:
        client.chat(tools=[TOOL], response_format={"type": "json_object"})
        constraint = backend.calls[0].constraint
        assert isinstance(constraint, OneOf)
        assert JsonObject() in constraint.options


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [TOOL, TOOL]}, "tools[1].function.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ],
)
def test_a_wrong_tool_is_named(fields: dict[str, object], param: str) -> None:
    with serving(PieceBackend()) as client:
        response = client.chat(**fields)
        assert (response.status_code, response.json()["error"]["param"]) == (400, param)


def test_budget_that_closes_a_call_says_so_and_a_budget_that_cuts_text_is_length() -> None:
    with serving(PieceBackend(pieces=[FIRST], reason=StopReason.BUDGET)) as client:
        choice = client.chat(tools=[TOOL], tool_choice="required").json()["choices"][0]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("tool_calls", "budget")
    with serving(PieceBackend(pieces=["some text"], reason=StopReason.BUDGET)) as client:
        choice = client.chat(tools=[TOOL]).json()["choices"][0]
        assert choice["finish_reason"] == "length"


def test_tools_are_told_to_a_template_that_knows_none_and_results_come_back() -> None:
    with serving(backend := PieceBackend()) as client:
        history = [
            {"role": "user", "content": "weather?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "look_up_city", "arguments": '{"city": "Bern", "days": 3}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
        ]
        assert client.chat(tools=[TOOL], messages=history).status_code == 200
        prompt = bytes(backend.calls[0].prompt).decode()
        assert '"look_up_city"' in prompt
        assert FIRST in prompt
        assert "<tool_response>\nsunny\n</tool_response>" in prompt


def test_thoughts_are_told_apart_and_stop_strings_do_not_reach_them() -> None:
    pieces = list("<think>a ## b</think>answer ## tail")
    with serving(PieceBackend(pieces=pieces), reasoning_format="on") as client:
        got = collected(events(client.chat(stop=["##"], stream=True)))
        assert (got["reasoning"], got["content"]) == ("a ## b", "answer ")
        message = client.chat(stop=["##"]).json()["choices"][0]["message"]
        assert (message["reasoning"], message["content"]) == ("a ## b", "answer ")
        assert message["reasoning_content"] == message["reasoning"]


@settings(deadline=None, max_examples=30)
@given(
    before=st.sampled_from(["", "Text. ", "a < b\n\n"]),
    calls=st.lists(st.sampled_from([FIRST, SECOND]), max_size=3),
    after=st.sampled_from(["", "\nMore.", "  "]),
    size=st.integers(1, 9),
    limit=st.integers(1, 400),
)
def test_streams_and_whole_answers_agree_however_the_text_is_cut(
    before: str, calls: list[str], after: str, size: int, limit: int
) -> None:
    text = before + "\n".join(calls) + after
    pieces = [text[start : start + size] for start in range(0, len(text), size)] or [""]
    pieces = [piece for piece in pieces if piece] or ["x"]
    with serving(PieceBackend(pieces=pieces)) as client:
        fields: dict[str, object] = {"tools": [TOOL, NOW], "max_tokens": limit}
        streamed = collected(events(client.chat(stream=True, **fields)))
        whole = client.chat(**fields).json()["choices"][0]
    message = whole["message"]
    assert streamed["content"] == (message["content"] or "")
    assert streamed["finish"] == [whole["finish_reason"]]
    assert [(call["name"], call["arguments"]) for call in streamed["calls"].values()] == [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])
    ]


def test_a_format_is_the_one_the_server_was_told_or_none() -> None:
    mistral = '[TOOL_CALLS] [{"name": "now", "arguments": {}}]'
    with serving(PieceBackend(pieces=[mistral]), tool_format="mistral") as client:
        (call,) = client.chat(tools=[NOW]).json()["choices"][0]["message"]["tool_calls"]
        assert call["function"]["name"] == "now"
        assert len(call["id"]) == 9
    with serving(PieceBackend(), tool_format="none") as client:
        assert client.chat(tools=[NOW]).status_code == 400
    with pytest.raises(InvalidRequest, match="hermes"), serving(PieceBackend(), tool_format="morse"):
        pass
