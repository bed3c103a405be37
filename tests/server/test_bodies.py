"""Large and crafted bodies are refused before anything is built from them."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_client import Client, PieceBackend, serving

from sgrt.server.errors import ApiError
from sgrt.server.json_body import JsonValue, parse_object, parse_value

ASK = b'"messages":[{"role":"user","content":"go"}]'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"messages":[' + b'{"role":"user","content":"a"},' * 40_000 + b"1]}", "objects and lists"),
        (b'{"prompt":[' + b"1," * 1_100_000 + b"1]}", "values"),
        (b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}", "is not JSON: recursion limit"),
        (b'{"a":{' + b",".join(b'"%d":1' % number for number in range(40_000)) + b"}}", "names"),
        (b'{"a":"' + b"[" * 20_000 + b'"' + b',"b":[' + b"[]," * 20_000 + b"1]}", "objects and lists"),
        (b'{"a":' * 129 + b"1" + b"}" * 129, "deeper than"),
        (b"{" + ASK + b',"seed":' + b"9" * 5000 + b"}", "is not JSON: number out of range"),
        (b"{" + ASK + b',"seed":-' + b"9" * 500 + b"}", "more than 400 digits"),
        (b"{" + ASK + b',"temperature":' + b"9" * 400 + b".0}", "out of range"),
        (b"{" + ASK + b',"temperature":1e999}', "out of range"),
        (b"{" + ASK + b',"temperature":1E+0400}', "out of range"),
        (b"{" + ASK + b',"temperature":-Infinity}', "is not JSON"),
        (b'{"a":"' + b"\\" * 1_000_001, "is not JSON"),
        (b'{"a":"' + b"\\" * 1_000_001 + b'"' + b"[" * 20_000, "objects and lists"),
        (b'{"a":"\\ud83d"}', "is not JSON"),
        (b'{"\xff":1}', "is not JSON"),
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


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**400) + 1, 10**400 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts, inner, max_size=4),
    max_leaves=20,
)


@given(body=st.dictionaries(_texts, _values, max_size=5), is_ascii=st.booleans())
def test_every_other_body_is_read_as_it_was_written(body: dict[str, JsonValue], is_ascii: bool) -> None:
    raw = json.dumps(body, ensure_ascii=is_ascii).encode()
    assert repr(parse_object(raw, max_depth=128)) == repr(body)


@given(raw=st.binary(max_size=40) | st.text('[]{}"\\,:0eu', max_size=40).map(str.encode))
def test_bytes_are_a_value_or_a_refusal(raw: bytes) -> None:
    try:
        value = parse_value(raw, max_depth=8)
    except ApiError as error:
        assert error.status == 400
    else:
        json.dumps(value, allow_nan=False).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":"' + b"1" * 299 + (b"x" + b"1" * 299) * 13_000 + b'"}',
        b'{"a":"' + b"\\\\" * 2_000_000 + b'"}',
        b'{"a":[' + b'"abcde",' * 500_000 + b"1]}",
        b'{"a":[' + b"1.5e7," * 500_000 + b"1]}",
        b'{"a":[' + b"{}," * 1_400_000 + b"1]}",
        b'{"a":"' + b"[" * 20_000 + b'","b":[' + b'"",' * 1_300_000 + b"1]}",
        b'{"a":"' + b"\\ud83d\\ude00" * 340_000 + b'"}',
    ],
)
def test_no_body_of_the_largest_size_keeps_others_waiting(raw: bytes) -> None:
    longest = 0.0
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(parse_value, raw, max_depth=128)
        last = time.perf_counter()
        while not reading.done():
            time.sleep(0.001)
            now = time.perf_counter()
            last, longest = now, max(longest, now - last)
    assert longest < 0.5  # 0.1 on a quiet machine; a scan that goes back takes seconds
