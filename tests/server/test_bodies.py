"""Large and crafted bodies are refused before anything is built from them."""

from __future__ import annotations

import pytest
from server_client import Client, PieceBackend, serving

ASK = b'"messages":[{"role":"user","content":"go"}]'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"messages":[' + b'{"role":"user","content":"a"},' * 40_000 + b"1]}", "objects and lists"),
        (b'{"prompt":[' + b"1," * 1_100_000 + b"1]}", "values"),
        (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "deeper than"),
        (b"{" + ASK + b',"seed":' + b"9" * 5000 + b"}", "5000 digits"),
        (b"{" + ASK + b',"temperature":' + b"9" * 400 + b".0}", "out of range"),
        (b"{" + ASK + b',"temperature":1e999}', "out of range"),
        (b"{" + ASK + b',"temperature":1E+0400}', "out of range"),
        (b"{" + ASK + b',"temperature":-Infinity}', "is not JSON"),
        (b'{"a":"' + b"\\" * 1_000_001, "is not JSON"),
    ],
)
def test_a_crafted_body_is_a_400(client: Client, body: bytes, message: str) -> None:
    response = client.post("/v1/chat/completions", body)
    assert response.status_code == 400
    assert message in response.json()["error"]["message"]


def test_brackets_and_commas_in_texts_are_text(client: Client) -> None:
    text = '[{"' * 50_000 + "," * 1_200_000
    response = client.chat(messages=[{"role": "user", "content": text}])
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert client.chat(messages=[{"role": "user", "content": "[" * 500 + "9" * 500}]).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "a" * 600_000}),
        ("/v1/completions", {"prompt": [1] * 5000}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a" * 600_000}]}),
        ("/tokenize", {"prompt": "a" * 600_000}),
        ("/tokenize", {"messages": [{"role": "user", "content": "a" * 600_000}]}),
        ("/generate", {"text": "a" * 600_000}),
        ("/generate", {"token_ids": [1] * 5000}),
        ("/render", {"messages": [{"role": "user", "content": "a" * 600_000}]}),
    ],
)
def test_what_no_context_can_hold_is_refused_before_it_is_encoded(path: str, body: dict[str, object]) -> None:
    with serving(backend := PieceBackend()) as client:
        response = client.post(path, body)
        assert (response.status_code, response.json()["error"]["code"]) == (400, "context_length_exceeded")
        assert not backend.calls
