"""Nothing that would change an answer is ignored, at the top of a body or deep in it."""

from __future__ import annotations

import json

import pytest
from server_client import Client, PieceBackend

from sgrt.server.wire.base import Wire
from sgrt.server.wire.chat import ChatRequest
from sgrt.server.wire.completions import CompletionRequest
from sgrt.server.wire.responses import ResponsesRequest
from sgrt.server.wire.unknown import IGNORED

ROUTES: dict[str, tuple[type[Wire], dict[str, object]]] = {
    "/v1/chat/completions": (ChatRequest, {"messages": [{"role": "user", "content": "go"}]}),
    "/v1/completions": (CompletionRequest, {"prompt": "go"}),
    "/v1/responses": (ResponsesRequest, {"input": "go"}),
}
VALUES: dict[str, object] = {
    "n": 2, "logprobs": 2, "top_logprobs": 2, "max_tokens": 3, "max_output_tokens": 3, "max_completion_tokens": 3,
    "prompt_logprobs": 1, "tool_choice": "required", "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "now"}}], "chat_template_kwargs": {"thinking": True},
    "text": {"format": {"type": "json_object"}}, "messages": [{"role": "user", "content": "x"}],
    "add_generation_prompt": False,
}  # fmt: skip
LABELS = {"stream_options", "parallel_tool_calls", "add_special_tokens", "special"}  # about what is not there


def sent(client: Client, path: str, fields: dict[str, object]) -> tuple[int, str | None, str]:
    """Status, the parameter at fault, and the header that names what was ignored."""
    response = client.post(path, {**ROUTES[path][1], **fields})
    error = response.json().get("error") or {}
    return response.status_code, error.get("param"), response.headers.get("x-sgrt-ignored-fields", "")


@pytest.mark.parametrize("path", ROUTES)
def test_what_another_route_knows_is_not_ignored_here(client: Client, path: str) -> None:
    own = ROUTES[path][0].model_fields
    for model, _ in ROUTES.values():
        for name in model.model_fields.keys() - own.keys() - LABELS - IGNORED:
            got = sent(client, path, {name: VALUES.get(name, True)})
            assert got == (400, name, ""), f"{name} on {path}"


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(
    ("name", "value", "harmless"),
    [
        ("best_of", 3, 1),
        ("lora_path", "other", None),
        ("include_reasoning", False, True),
        ("max_tool_calls", 1, None),
        ("spaces_between_special_tokens", False, True),
        ("model_kwargs", {"a": 1}, {}),
        ("use_beam_search", True, False),
        ("guided_json", {}, None),
    ],
)
def test_fields_of_other_servers_are_refused_unless_they_change_nothing(
    client: Client, path: str, name: str, value: object, harmless: object
) -> None:
    assert sent(client, path, {name: value}) == (400, name, "")
    if not name.startswith("guided"):
        assert sent(client, path, {name: harmless}) == (200, None, "")


DEEP: list[tuple[str, dict[str, object], str]] = [
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "a", "prefix": True}]},
        "messages[0].prefix",
    ),
    (
        "/v1/chat/completions",
        {
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b", "function_call": {"name": "f", "arguments": "{}"}},
            ]
        },
        "messages[1].function_call",
    ),
    (
        "/v1/chat/completions",
        {"response_format": {"type": "json_object", "schema": {}}},
        "response_format.schema",
    ),
    ("/v1/completions", {"response_format": {"type": "text", "grammar": "a"}}, "response_format.grammar"),
    (
        "/v1/responses",
        {"text": {"format": {"type": "json_object", "json_schema": {}}}},
        "text.format.json_schema",
    ),
    ("/v1/responses", {"reasoning": {"max_tokens": 3}}, "reasoning.max_tokens"),
]


@pytest.mark.parametrize(("path", "fields", "param"), DEEP)
def test_what_lies_deep_and_would_be_lost_is_refused(
    client: Client, path: str, fields: dict[str, object], param: str
) -> None:
    assert sent(client, path, fields) == (400, param, "")


def test_what_lies_deep_and_is_ignored_is_named_once(client: Client) -> None:
    part = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    message = {"role": "user", "content": [part, part], "wobble": 1, "prefix": False, "audio": None}
    fields = {"messages": [message, message], "stream": True, "stream_options": {"wibble": True}}
    names = sent_names(client, fields)
    assert names == {"messages[].content[].cache_control", "messages[].wobble", "stream_options.wibble"}


def sent_names(client: Client, fields: dict[str, object]) -> set[str]:
    response = client.post("/v1/chat/completions", fields)
    assert response.status_code == 200
    return set(response.headers["x-sgrt-ignored-fields"].split(","))


SAMPLING: dict[str, object] = {
    "presence_penalty": 0.5,
    "frequency_penalty": 0.25,
    "logit_bias": {"7": 2.0},
    "min_tokens": 2,
    "stop_token_ids": [9],
    "ignore_eos": True,
    "include_stop_str_in_output": True,
    "skip_special_tokens": False,
    "top_k": 3,
    "seed": 5,
    "stop": ["x"],
}


def test_responses_draw_as_chats_do(client: Client, backend: PieceBackend) -> None:
    client.chat()
    for name, value in SAMPLING.items():
        chat = client.chat(**{name: value})
        response = client.post("/v1/responses", {"input": "go", name: value})
        assert (chat.status_code, response.status_code) == (200, 200), name
        assert backend.calls[-2].sampling == backend.calls[-1].sampling
        assert backend.calls[-1].sampling != backend.calls[0].sampling, name
    client.post("/v1/responses", {"input": "go", "bad_words": ["ab"]})
    assert backend.calls[-1].constraint is not None


def test_log_probabilities_of_a_response_may_be_asked_for_by_name(client: Client) -> None:
    wanted = {"input": "go", "include": ["message.output_text.logprobs"]}
    (item,) = client.post("/v1/responses", wanted).json()["output"]
    assert item["content"][0]["logprobs"], json.dumps(item)
