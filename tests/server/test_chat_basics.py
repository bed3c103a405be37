"""Chat completions without tools: whole answers, streams, stops, counts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_client import Client, PieceBackend, events, serving

from sgrt_frontend.call import StopReason


def deltas(response_events: list[dict[str, object]], index: int = 0) -> list[dict[str, object]]:
    found = []
    for item in response_events:
        for choice in item["choices"]:  # type: ignore[attr-defined]  # parsed JSON
            if choice["index"] == index:
                found.append(choice)
    return found


def text_of(response_events: list[dict[str, object]], index: int = 0) -> str:
    return "".join(choice["delta"].get("content") or "" for choice in deltas(response_events, index))  # type: ignore[attr-defined]  # parsed JSON


def test_a_whole_answer_has_every_field_that_strict_clients_check(client: Client) -> None:
    body = client.chat().json()
    assert body["object"] == "chat.completion"
    assert isinstance(body["created"], int)
    assert body["id"].startswith("chatcmpl-")
    assert body["model"] == "stub"
    (choice,) = body["choices"]
    assert choice["message"] == {"role": "assistant", "content": "Hello world", "refusal": None}
    assert choice["finish_reason"] == "stop"
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 2


def test_a_stream_begins_with_the_role_and_ends_once(client: Client) -> None:
    chunks = deltas(events(client.chat(stream=True)))
    assert chunks[0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["delta"] for chunk in chunks[1:-1]] == [{"content": "Hello"}, {"content": " world"}]
    assert chunks[-1]["delta"] == {}
    assert [chunk["finish_reason"] for chunk in chunks if chunk["finish_reason"]] == ["stop"]


def test_usage_comes_last_and_only_when_it_is_asked_for(client: Client) -> None:
    with_usage = events(client.chat(stream=True, stream_options={"include_usage": True}))
    assert with_usage[-1]["choices"] == []
    assert with_usage[-1]["usage"] == client.chat().json()["usage"]
    assert all(item["usage"] is None for item in with_usage[:-1])
    assert all("usage" not in item for item in events(client.chat(stream=True)))


def test_every_choice_of_a_stream_has_its_own_head_and_end(client: Client) -> None:
    items = events(client.chat(stream=True, n=3))
    for index in range(3):
        own = deltas(items, index)
        assert own[0]["delta"]["role"] == "assistant"  # type: ignore[index]  # parsed JSON
        assert sum(choice["finish_reason"] is not None for choice in own) == 1
        assert text_of(items, index) == "Hello world"


@settings(deadline=None, max_examples=25)
@given(
    pieces=st.lists(st.text("abS TOP.", min_size=1, max_size=4), min_size=1, max_size=12),
    stop=st.lists(st.sampled_from(["STOP", "S", "ab", "P."]), max_size=3),
    limit=st.integers(1, 14),
)
def test_a_stream_and_a_whole_answer_say_the_same(pieces: list[str], stop: list[str], limit: int) -> None:
    with serving(PieceBackend(pieces=pieces)) as client:
        fields: dict[str, object] = {"stop": stop, "max_tokens": limit}
        whole = client.chat(**fields).json()["choices"][0]
        streamed = events(client.chat(stream=True, **fields))
        assert text_of(streamed) == whole["message"]["content"]
        assert deltas(streamed)[-1]["finish_reason"] == whole["finish_reason"]


def test_the_stop_string_that_matched_is_named() -> None:
    with serving(PieceBackend(pieces=["q", "#", "w"])) as client:
        choice = client.chat(stop=["w", "#"]).json()["choices"][0]
        assert (choice["message"]["content"], choice["stop_reason"]) == ("q", "#")
        kept = client.chat(stop=["w", "#"], include_stop_str_in_output=True).json()["choices"][0]
        assert kept["message"]["content"] == "q#"


@pytest.mark.parametrize(
    ("reason", "finish", "stop_reason"),
    [
        (StopReason.END_OF_TEXT, "stop", None),
        (StopReason.LENGTH, "length", None),
        (StopReason.BUDGET, "stop", "budget"),
        (StopReason.DEADLINE, "length", "deadline"),
        (StopReason.CANCELLED, "length", "cancelled"),
    ],
)
def test_finish_reasons_are_words_of_the_public_api(
    reason: StopReason, finish: str, stop_reason: str | None
) -> None:
    with serving(PieceBackend(reason=reason)) as client:
        choice = client.chat().json()["choices"][0]
        assert (choice["finish_reason"], choice["stop_reason"]) == (finish, stop_reason)


def test_a_deadline_that_passes_before_the_first_token_is_a_refusal() -> None:
    with serving(PieceBackend(pieces=[], reason=StopReason.DEADLINE)) as client:
        for stream in (False, True):
            response = client.chat(stream=stream)
            assert (response.status_code, response.json()["error"]["code"]) == (429, "deadline_exceeded")
            assert "retry-after" in response.headers


def test_a_failure_inside_a_stream_is_an_error_event_and_the_stream_is_ended() -> None:
    with serving(PieceBackend(failure=RuntimeError("boom"), fails_after=1)) as client:
        items = events(client.chat(stream=True))
        assert items[-1] == {
            "error": {
                "message": "internal error",
                "type": "server_error",
                "param": None,
                "code": "internal_error",
            }
        }


def test_log_probabilities_carry_the_bytes_of_their_tokens() -> None:
    with serving(PieceBackend(pieces=["a", "b"])) as client:
        content = client.chat(logprobs=True, top_logprobs=2).json()["choices"][0]["logprobs"]["content"]
        assert [entry["token"] for entry in content] == ["a", "b"]
        assert content[0]["bytes"] == [97]
        assert [entry["token"] for entry in content[0]["top_logprobs"]] == ["A", "B"]


def test_a_last_message_of_the_assistant_is_continued_when_asked(
    client: Client, backend: PieceBackend
) -> None:
    messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "So far"}]
    client.chat(messages=messages, continue_final_message=True)
    assert bytes(backend.calls[-1].prompt).endswith(b"<assistant>So far")


@pytest.mark.parametrize("cached", [0, 7])
def test_cached_tokens_are_told_on_every_path_and_none_is_a_number(cached: int) -> None:
    with serving(PieceBackend(cached_tokens=cached)) as client:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        usages = [
            client.chat().json()["usage"],
            events(client.chat(**options))[-1]["usage"],
            client.complete().json()["usage"],
            events(client.complete(**options))[-1]["usage"],
        ]
        assert [usage["prompt_tokens_details"] for usage in usages] == [{"cached_tokens": cached}] * 4
        response = client.post("/v1/responses", {"input": "go"}).json()
        streamed = client.post("/v1/responses", {"input": "go", "stream": True}).text.split("\n\n")[-2]
        last = json.loads(streamed.partition("data: ")[2])["response"]
        for body in (response, last):
            assert body["usage"]["input_tokens_details"]["cached_tokens"] == cached
