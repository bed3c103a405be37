"""Fields about single tokens: those allowed, special ones in the text, log-probabilities of the prompt, cached counts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from engine_server import engine_serving
from scripted_engine import END, saying, tokenizer
from server_client import Client, PieceBackend, events, serving

from sgrt.engine.scripted import continue_with
from sgrt.server.admission import Admission
from sgrt.server.config import Limits
from sgrt_frontend.call import Call, Chunk
from sgrt_frontend.errors import InvalidRequest, Overloaded

IM_START = 265
TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    },
}


def metric(client: Client, name: str) -> float:
    lines = [line for line in client.get("/metrics").text.splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_only_allowed_tokens_are_drawn_whatever_the_model_wants() -> None:
    allowed = sorted({*tokenizer().encode("ab"), *tokenizer().encode("b")})
    with engine_serving(saying("hello")) as (client, _):
        for temperature in (0, 1):
            body = client.complete(
                allowed_token_ids=allowed, max_tokens=7, temperature=temperature, return_token_ids=True
            ).json()
            (choice,) = body["choices"]
            assert set(choice["token_ids"]) <= set(allowed)
            assert (len(choice["token_ids"]), choice["finish_reason"]) == (7, "length")
        assert client.chat(allowed_token_ids=[END], max_tokens=5).json()["usage"]["completion_tokens"] == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"allowed_token_ids": [END], "min_tokens": 2},
        {"allowed_token_ids": [97], "structured_outputs": {"regex": "a"}},
        {"allowed_token_ids": [97], "tools": [TOOL], "tool_choice": "required"},
        {"allowed_token_ids": [-1]},
    ],
)
def test_what_leaves_nothing_to_draw_is_refused(fields: dict[str, object]) -> None:
    with engine_serving(saying("hello")) as (client, _):
        response = client.chat(max_tokens=5, **fields)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "allowed_token_ids")


def test_special_tokens_show_in_the_text_when_they_are_not_skipped() -> None:
    script = continue_with([*tokenizer().encode("a"), IM_START, *tokenizer().encode("b")], end_token_id=END)
    with engine_serving(script, tool_format="hermes") as (client, _):
        assert client.chat().json()["choices"][0]["message"]["content"] == "ab"
        shown = client.chat(skip_special_tokens=False)
        assert shown.json()["choices"][0]["message"]["content"] == "a<|im_start|>b"
        streamed = events(client.chat(skip_special_tokens=False, stream=True))
        pieces = [choice["delta"].get("content") for item in streamed for choice in item["choices"]]  # type: ignore[attr-defined]  # JSON
        assert "".join(piece or "" for piece in pieces) == "a<|im_start|>b"
        stopped = client.chat(skip_special_tokens=False, stop=["<|im_start|>"]).json()
        assert stopped["choices"][0]["message"]["content"] == "a"


def test_prompt_logprobs_are_those_that_generating_gives() -> None:
    text = "hello world"
    tokens = tokenizer().encode(text)
    with engine_serving(saying("x")) as (client, _):
        body = client.complete(prompt=text, prompt_logprobs=2, max_tokens=1).json()
        places = body["choices"][0]["prompt_logprobs"]
        assert places[0] is None and len(places) == len(tokens)
        for place, token in enumerate(tokens[1:], start=1):
            info: dict[str, Any] = places[place]
            assert {str(token)} <= set(info) and 2 <= len(info) <= 3
            generated = client.complete(
                prompt=list(tokens[:place]), max_tokens=1, logprobs=2, ignore_eos=True
            ).json()
            best = generated["choices"][0]["logprobs"]["top_logprobs"][0]
            by_rank = {entry["rank"]: entry["logprob"] for entry in info.values() if entry["rank"]}
            assert by_rank[1] == pytest.approx(max(best.values()), abs=1e-5)
        chat = client.chat(prompt_logprobs=0, return_token_ids=True).json()
        assert len(chat["prompt_logprobs"]) == len(chat["prompt_token_ids"])
        assert all(len(place) == 1 for place in chat["prompt_logprobs"][1:])


def test_an_echo_has_alternatives_too() -> None:
    with engine_serving(saying("x")) as (client, _):
        body = client.complete(prompt="hello", echo=True, logprobs=1, max_tokens=1).json()
        logprobs = body["choices"][0]["logprobs"]
        assert logprobs["token_logprobs"][0] is None
        assert all(1 <= len(best) <= 2 for best in logprobs["top_logprobs"][1:])
        assert "".join(logprobs["tokens"]).startswith("hello")


def test_where_the_time_of_an_output_went_is_counted() -> None:
    with engine_serving(saying("one two three")) as (client, _):
        client.chat(n=2, temperature=0)
        phases = {
            name: metric(client, f"sgrt:request_{name}_time_seconds_sum")
            for name in ("queue", "prefill", "decode", "inference")
        }
        assert metric(client, "sgrt:request_queue_time_seconds_count") == 2
        assert phases["prefill"] + phases["decode"] == pytest.approx(phases["inference"])
        assert phases["inference"] > 0 <= phases["queue"]


def test_cached_tokens_are_told_when_a_parser_ends_the_stream_early() -> None:
    with engine_serving(saying("one STOP two three four"), tool_format="hermes") as (client, _):
        first = client.chat(tools=[TOOL], stop=["STOP"]).json()["usage"]
        assert first["prompt_tokens_details"]["cached_tokens"] == 0
        again = client.chat(tools=[TOOL], stop=["STOP"]).json()["usage"]
        assert again["prompt_tokens_details"]["cached_tokens"] == first["prompt_tokens"] - 1
        streamed = events(
            client.chat(tools=[TOOL], stop=["STOP"], stream=True, stream_options={"include_usage": True})
        )
        assert streamed[-1]["usage"] == again
        assert metric(client, "sgrt:request_success_total") == 3
        assert metric(client, "sgrt:prompt_tokens_total") == 3 * first["prompt_tokens"]


@pytest.mark.parametrize(
    "failure", [InvalidRequest("late", param="prompt"), Overloaded("full", retry_after_s=1.0)]
)
def test_what_is_refused_late_is_refused_with_an_echo_too(failure: Exception) -> None:
    with serving(PieceBackend(failure=failure)) as client:
        for prompt in ("hello", ["hello", "you"]):
            plain = client.complete(prompt=prompt, stream=True)
            echoed = client.complete(prompt=prompt, stream=True, echo=True, logprobs=0)
            assert plain.status_code == echoed.status_code >= 400
    with serving(PieceBackend(), limits=Limits(inflight_sequences=1)) as client:
        assert client.complete(prompt="hello", n=2, echo=True, stream=True).status_code == 503


def test_echoes_come_first() -> None:
    with serving(PieceBackend(pieces=["a", "b"])) as client:
        texts: dict[int, str] = {}
        for item in events(client.complete(prompt=["go ", "on "], n=2, stream=True, echo=True)):
            choice: Any = item["choices"][0]  # type: ignore[index]  # parsed JSON
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    assert texts == {0: "go ab", 1: "go ab", 2: "on ab", 3: "on ab"}


class Leaving(PieceBackend):
    """A backend whose server takes nothing new once an answer has begun."""

    admission: Admission

    async def generate(self, call: Call) -> AsyncIterator[Chunk]:
        self.admission.drain()
        async for chunk in super().generate(call):
            yield chunk


def test_an_answer_is_not_thrown_away_because_its_prompt_cannot_be_scored_any_more() -> None:
    with serving(backend := Leaving()) as client:
        backend.admission = client.app.state.service.admission
        response = client.chat(prompt_logprobs=0)
        assert response.status_code == 200
        assert len(response.json()["prompt_logprobs"]) == response.json()["usage"]["prompt_tokens"]
        assert client.chat(prompt_logprobs=0).status_code == 503
