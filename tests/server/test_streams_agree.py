"""What a stream adds up to is what the whole answer says, on every route, for whatever is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from engine_server import engine_serving
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_engine import saying
from server_client import Client, PieceBackend, events, serving

TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 9}, "days": {"type": "integer"}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
    },
}
CALL = '<tool_call>\n{"name": "look_up", "arguments": {"city":"Bern","days":3}}\n</tool_call>'
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}},
    "required": ["a"],
}
PIECES = (
    "a",
    "b",
    "ab",
    "AB",
    " the",
    "é",
    "🌍",
    "\n",
    "</tool_call>",
    "<tool",
    "<think>",
    "</think>",
    "{",
    '"',
    CALL,
)
STOPS = ("b", "ab", "ba", "a the", "é🌍", "🌍", "\n\n", "tool", "}", "zz")


class Wish:
    """A model that wants to say whatever the test wants it to."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        return saying(self.text)(prompt, output)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Wish, Client]]:
    wish = Wish()
    with engine_serving(wish, settings={"checks_integrity": False}) as (client, _):
        yield wish, client


texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
sampling = st.fixed_dictionaries(
    {},
    optional={
        "stop": st.lists(st.sampled_from(STOPS), min_size=1, max_size=3),
        "include_stop_str_in_output": st.booleans(),
        "max_tokens": st.integers(1, 40),
        "min_tokens": st.just(1),
        "n": st.integers(1, 3),
        "return_token_ids": st.just(True),
        "skip_special_tokens": st.booleans(),
    },
)
shapes = st.fixed_dictionaries(
    {},
    optional={
        "response_format": st.sampled_from(
            [
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
            ]
        ),
    },
)
tools = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.just([TOOL]),
        "parallel_tool_calls": st.booleans(),
    },
)
tool_choices = st.sampled_from(["auto", "none", "required", None])
logprobs = st.sampled_from([{}, {"logprobs": True}, {"logprobs": True, "top_logprobs": 2}])


def chat_of(items: list[dict[str, Any]]) -> dict[str, Any]:
    """The whole answer that a stream's events add up to."""
    choices: dict[int, dict[str, Any]] = {}
    usage = None
    for item in items:
        usage = item.get("usage") or usage
        for choice in item["choices"]:
            got = choices.setdefault(
                choice["index"],
                {"content": "", "reasoning": "", "calls": {}, "logprobs": [], "tokens": [], "ends": []},
            )
            add(got, choice)
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage}


def add(got: dict[str, Any], choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    got["content"] += delta.get("content") or ""
    got["reasoning"] += delta.get("reasoning") or ""
    got["tokens"] += choice.get("token_ids") or []
    got["logprobs"] += (choice["logprobs"] or {}).get("content") or []
    for call in delta.get("tool_calls", ()):
        known = got["calls"].setdefault(
            call["index"], {"name": call["function"].get("name"), "arguments": ""}
        )
        known["arguments"] += call["function"]["arguments"]
    if choice["finish_reason"]:
        got["ends"].append((choice["finish_reason"], choice["stop_reason"]))


def flat(whole: dict[str, Any]) -> dict[str, Any]:
    """A whole answer in the same form."""
    choices = []
    for choice in whole["choices"]:
        message = choice["message"]
        calls = [call["function"] for call in message.get("tool_calls", ())]
        choices.append(
            {
                "content": message["content"] or "",
                "reasoning": message.get("reasoning", ""),
                "calls": dict(enumerate(calls)),
                "logprobs": (choice["logprobs"] or {}).get("content") or [],
                "tokens": choice.get("token_ids") or [],
                "ends": [(choice["finish_reason"], choice["stop_reason"])],
            }
        )
    return {"choices": choices, "usage": whole["usage"]}


def both(client: Client, path: str, body: dict[str, Any]) -> tuple[Any, list[Any]] | None:
    """The second whole answer and the stream's events, or None if both were refused alike.

    The first answer fills the cache, so that the others find the same there.
    """
    client.post(path, body)
    whole = client.post(path, body)
    options = {"stream_options": {"include_usage": True}} if path != "/v1/responses" else {}
    stream = client.post(path, {**body, "stream": True, **options})
    assert whole.status_code == stream.status_code < 500
    if whole.status_code != 200:
        assert whole.json() == stream.json()
        return None
    if path == "/v1/responses":
        blocks = [block for block in stream.text.split("\n\n") if block.startswith("event:")]
        return whole.json(), [json.loads(block.partition("data: ")[2]) for block in blocks]
    return whole.json(), events(stream)


@settings(max_examples=120, deadline=None)
@given(text=texts, fields=sampling, shape=shapes, offered=tools, choice=tool_choices, wanted=logprobs)
def test_chats(
    served: tuple[Wish, Client],
    text: str,
    fields: dict[str, Any],
    shape: dict[str, Any],
    offered: dict[str, Any],
    choice: str | None,
    wanted: dict[str, Any],
) -> None:
    wish, client = served
    wish.text = text
    body = {"messages": [{"role": "user", "content": "go"}], "temperature": 0, "max_tokens": 80}
    if "tools" in offered and choice is not None:
        offered = {**offered, "tool_choice": choice}
    answers = both(client, "/v1/chat/completions", {**body, **fields, **shape, **offered, **wanted})
    if answers is not None:
        whole, stream = answers
        assert chat_of(stream) == flat(whole)


@settings(max_examples=80, deadline=None)
@given(text=texts, fields=sampling, echo=st.booleans(), logprobs=st.none() | st.integers(0, 2))
def test_completions(
    served: tuple[Wish, Client], text: str, fields: dict[str, Any], echo: bool, logprobs: int | None
) -> None:
    wish, client = served
    wish.text = text
    body = {"prompt": ["go", "on"], "temperature": 0, "echo": echo, "logprobs": logprobs, **fields}
    answers = both(client, "/v1/completions", body)
    if answers is None:
        return
    whole, stream = answers
    choices: list[dict[str, Any]] = [{"text": "", "tokens": [], "ends": []} for _ in whole["choices"]]
    for choice in (choice for item in stream for choice in item["choices"]):
        got = choices[choice["index"]]
        got["text"] += choice["text"]
        got["tokens"] += (choice["logprobs"] or {}).get("tokens") or []
        got["ends"] += [(choice["finish_reason"], choice["stop_reason"])] if choice["finish_reason"] else []
    assert stream[-1]["usage"] == whole["usage"]
    assert choices == [
        {
            "text": choice["text"],
            "tokens": (choice["logprobs"] or {}).get("tokens") or [],
            "ends": [(choice["finish_reason"], choice["stop_reason"])],
        }
        for choice in whole["choices"]
    ]


@settings(max_examples=60, deadline=None)
@given(text=texts, offered=tools, limit=st.integers(1, 60), is_shaped=st.booleans())
def test_responses(
    served: tuple[Wish, Client], text: str, offered: dict[str, Any], limit: int, is_shaped: bool
) -> None:
    wish, client = served
    wish.text = text
    body: dict[str, Any] = {"input": "go", "temperature": 0, "max_output_tokens": limit}
    if "tools" in offered:
        body["tools"] = [{"type": "function", **TOOL["function"]}]  # type: ignore[dict-item]  # a table above
    if is_shaped:
        body["text"] = {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}
    answers = both(client, "/v1/responses", body)
    if answers is None:
        return
    whole, stream = answers
    last = stream[-1]["response"]
    assert (last["status"], last["usage"]) == (whole["status"], whole["usage"])
    assert [without_ids(item) for item in last["output"]] == [without_ids(item) for item in whole["output"]]
    said = "".join(event["delta"] for event in stream if event["type"] == "response.output_text.delta")
    parts = [part for item in whole["output"] if item["type"] == "message" for part in item["content"]]
    assert said == "".join(part["text"] for part in parts)


def without_ids(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in ("id", "call_id")}


@settings(max_examples=40, deadline=None)
@given(
    text=texts,
    limit=st.integers(1, 40),
    n=st.integers(1, 3),
    stop=st.lists(st.sampled_from(STOPS), max_size=2),
)
def test_native_calls(served: tuple[Wish, Client], text: str, limit: int, n: int, stop: list[str]) -> None:
    wish, client = served
    wish.text = text
    sampling = {"temperature": 0, "max_tokens": limit, "n": n, "stop": stop, "logprobs": 1}
    body = {"text": "go", "sampling": sampling}
    client.post("/generate", body)
    whole = client.post("/generate", body).json()["chunks"]
    stream = events(client.post("/generate", {**body, "stream": True}))
    assert outputs_of(whole, n) == outputs_of(stream, n)


def outputs_of(chunks: list[dict[str, Any]], n: int) -> list[Any]:
    return [
        (
            "".join(chunk.get("text", "") for chunk in chunks if chunk["index"] == index),
            [token for chunk in chunks if chunk["index"] == index for token in chunk.get("token_ids", ())],
            [chunk["finish"] for chunk in chunks if chunk["index"] == index and chunk.get("finish")],
        )
        for index in range(n)
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "go"}]}),
        ("/v1/completions", {"prompt": "go"}),
        ("/v1/responses", {"input": "go"}),
        ("/generate", {"text": "go"}),
    ],
)
def test_streams_come_token_by_token_and_whole_answers_are_gathered(
    path: str, body: dict[str, object]
) -> None:
    backend = PieceBackend()
    with serving(backend) as client:
        assert client.post(path, {**body, "stream": True}).status_code == 200
        assert client.post(path, body).status_code == 200
    streamed, whole = backend.calls
    assert streamed.interval_s == 0 < whole.interval_s
