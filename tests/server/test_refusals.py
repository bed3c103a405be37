"""Bad requests: each gets its own 400 with the field at fault, and the next good request is answered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_client import Client, PieceBackend, serving

from sgrt.server.config import Limits
from sgrt_frontend.errors import ConstraintError, DeadlineExceeded, Overloaded

CHAT = {"model": "stub", "messages": [{"role": "user", "content": "go"}]}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_k": 2**63}, "top_k"),
        ({"n": 0}, "n"),
        ({"n": 10**9}, "n"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"seed": 2**70}, "seed"),
        ({"stop": ["a"] * 1000}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop_token_ids": [10**9]}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"logit_bias": {"99999": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"1": 1000}}, "logit_bias"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 500}, "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"tools": []}, "tools"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"cache_salt": "x" * 200}, "cache_salt"),
        ({"guided_json": {"type": "object"}}, "guided_json"),
        ({"structured_schema": {}}, "structured_schema"),
        ({"regex": "a+"}, "regex"),
        ({"ebnf": "root ::= 'a'"}, "ebnf"),
        ({"json_schema": {}}, "json_schema"),
        ({"chat_template": "{{ 1 }}"}, "chat_template"),
        ({"bad_words": [""]}, "bad_words"),
        ({"bad_words": ["x"], "response_format": {"type": "json_object"}}, "bad_words"),
        ({"allowed_token_ids": [512]}, "allowed_token_ids"),
        ({"echo": True}, "echo"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"allowed_token_ids": []}, "allowed_token_ids"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),  # this backend knows no alternatives
        ({"use_beam_search": True}, "use_beam_search"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
        (
            {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
            "structured_outputs",
        ),
        ({"add_generation_prompt": True, "continue_final_message": True}, "continue_final_message"),
    ],
)
def test_a_wrong_field_is_named(client: Client, fields: dict[str, object], param: str) -> None:
    response = client.chat(**fields)
    assert response.status_code == 400, response.text
    error = response.json()["error"]
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert len(response.content) < 4096
    assert client.chat().status_code == 200


@pytest.mark.parametrize(
    "raw",
    [
        b"not json",
        b"",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"temperature": NaN}',
        b'{"temperature": 1e999}',
        b'{"temperature": -Infinity}',
        b'{"seed": ' + b"9" * 5000 + b"}",
        b'{"a":' * 5000 + b"1" + b"}" * 5000,
        b"[" * 200_000,
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "x"}',
    ],
    ids=lambda raw: raw[:24].decode("latin-1"),
)
def test_a_hostile_body_is_a_400_and_hurts_nobody_else(client: Client, raw: bytes) -> None:
    response = client.post("/v1/chat/completions", raw)
    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    assert client.chat().status_code == 200


@pytest.mark.parametrize("role", ["system", "developer", "user", "tool", "function"])
@pytest.mark.parametrize("left_out", [{}, {"content": None}])
def test_a_message_without_content_is_refused_by_its_place(
    client: Client, role: str, left_out: dict[str, None]
) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": role, "tool_call_id": "a", **left_out}]
    response = client.chat(messages=turns)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages[1].content"


def test_a_message_of_the_assistant_may_have_no_content(client: Client) -> None:
    turns = [{"role": "user", "content": "a"}, {"role": "assistant"}, {"role": "user", "content": "b"}]
    assert client.chat(messages=turns).status_code == 200


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "messages", "model", "n", "stop", "logit_bias", "response_format", "structured_outputs", "stream",
        "tools", "tool_choice", "stream_options", "logprobs", "seed", "temperature", "max_tokens", "priority",
    ]
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(fields=st.dictionaries(FIELDS, JSON, max_size=4))
def test_no_field_of_any_type_is_a_server_error(fields: dict[str, object]) -> None:
    with serving(PieceBackend()) as client:
        response = client.post("/v1/chat/completions", {**CHAT, **fields})
        assert response.status_code in (200, 400, 404), response.text


def test_harmless_fields_are_taken_and_unknown_ones_are_named_in_a_header(client: Client) -> None:
    response = client.chat(user="u", metadata={"a": "b"}, store=False, wobble=1)
    assert response.status_code == 200
    assert response.headers["x-sgrt-ignored-fields"] == "wobble"


@pytest.mark.parametrize("path", ["/v1/nope", "/", "/v1/models/other"])
def test_errors_have_the_public_shape_on_every_path(client: Client, path: str) -> None:
    response = client.get(path)
    assert response.status_code == 404
    assert isinstance(response.json()["error"]["message"], str)


def test_method_media_type_and_size_have_their_own_status() -> None:
    with serving(PieceBackend(), limits=Limits(body_bytes=100)) as client:
        assert client.get("/v1/chat/completions").status_code == 405
        xml = client.post("/v1/chat/completions", b"<a/>", {"content-type": "text/xml"})
        assert xml.status_code == 415
        assert client.post("/v1/chat/completions", b" " * 101).status_code == 413


def test_a_prompt_that_is_too_long_has_the_code_clients_look_for(client: Client) -> None:
    response = client.chat(messages=[{"role": "user", "content": "x" * 5000}])
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"
    streamed = client.chat(messages=[{"role": "user", "content": "x" * 5000}], stream=True)
    assert streamed.status_code == 400


def test_a_constraint_error_names_the_field_it_came_from() -> None:
    with serving(PieceBackend(failure=ConstraintError("no such type", pointer="/type"))) as client:
        schema = {"name": "r", "schema": {"type": "strnig"}}
        response = client.chat(response_format={"type": "json_schema", "json_schema": schema})
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "response_format.json_schema.schema"
        regex = client.chat(structured_outputs={"regex": "("})
        assert regex.json()["error"]["param"] == "structured_outputs.regex"


@pytest.mark.parametrize(
    ("failure", "status"), [(Overloaded("full", retry_after_s=2.5), 503), (DeadlineExceeded("late"), 429)]
)
def test_what_passes_says_when_to_come_back(failure: Exception, status: int) -> None:
    with serving(PieceBackend(failure=failure)) as client:
        for stream in (False, True):
            response = client.chat(stream=stream)
            assert response.status_code == status
            assert int(response.headers["retry-after"]) >= 1
            assert int(response.headers["retry-after-ms"]) >= 1000


def test_an_unknown_model_is_a_404(client: Client) -> None:
    response = client.chat(model="other")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


def test_more_outputs_than_fit_are_refused_with_retry_after() -> None:
    with serving(PieceBackend(), limits=Limits(inflight_sequences=2)) as client:
        response = client.chat(n=3)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "queue_full"
        assert "retry-after" in response.headers
        assert client.chat(n=2).status_code == 200
        assert (
            'sgrt:admission_rejections_total{model_name="stub",reason="queue_full"} 1'
            in client.get("/metrics").text
        )


def test_no_prompt_reaches_the_log(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        client.chat(messages=[{"role": "user", "content": "my secret"}])
        client.chat(messages=[{"role": "user", "content": "my secret"}], temperature="x")
    assert "my secret" not in caplog.text
