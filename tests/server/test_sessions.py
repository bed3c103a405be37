"""Sessions keep tokens; under load answers may be shortened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from engine_server import engine_serving
from scripted_engine import END, tokenizer
from server_client import Client, PieceBackend, events, serving

from sgrt.errors import InvalidRequest
from sgrt.server.app import create_app
from sgrt.server.config import Limits, ServerConfig
from sgrt.server.errors import ApiError
from sgrt.server.response_store import ResponseStore, Stored
from sgrt.server.sessions import Session, SessionStore

ASK = {"role": "user", "content": "go"}
MORE = {"role": "user", "content": "and?"}


def spelled_out(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    """Says "the end" byte by byte, as no encoder would."""
    text = [tokenizer().encode(character)[0] for character in "the end"]
    return {text[len(output)] if len(output) < len(text) else END: 30.0}


def test_a_session_goes_on_from_the_tokens_that_were_generated() -> None:
    with engine_serving(spelled_out) as (client, _):
        first = client.chat(messages=[ASK], session_id="s", temperature=0, return_token_ids=True).json()
        said = first["choices"][0]["message"]
        assert said["content"] == "the end"
        again = [ASK, said, MORE]
        kept = client.chat(messages=again, session_id="s", temperature=0, return_token_ids=True).json()
        lost = client.chat(messages=again, temperature=0, return_token_ids=True).json()
        output = [token for token in first["choices"][0]["token_ids"] if token != END]
        prompt = first["prompt_token_ids"]
        assert kept["prompt_token_ids"][: len(prompt) + len(output)] == [*prompt, *output]
        assert tokenizer().decode(kept["prompt_token_ids"]) == tokenizer().decode(lost["prompt_token_ids"])
        assert kept["prompt_token_ids"] != lost["prompt_token_ids"]
        assert kept["usage"]["prompt_tokens_details"]["cached_tokens"] >= len(prompt) + len(output) - 1
        metrics = client.get("/metrics").text
        (line,) = [
            line for line in metrics.splitlines() if line.startswith("sgrt:reencoded_tokens_lost_total")
        ]
        assert float(line.split()[-1]) > 0


def test_a_session_that_does_not_go_on_begins_anew() -> None:
    with engine_serving(spelled_out) as (client, _):
        client.chat(messages=[ASK], session_id="s", temperature=0)
        other = [ASK, {"role": "assistant", "content": "something else"}, MORE]
        fresh = client.chat(messages=other, session_id="s", temperature=0, return_token_ids=True).json()
        plain = client.chat(messages=other, temperature=0, return_token_ids=True).json()
        assert fresh["prompt_token_ids"] == plain["prompt_token_ids"]


def test_sessions_of_two_keys_are_two() -> None:
    with engine_serving(spelled_out, api_keys=("one", "two")) as (client, _):
        one, two = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))
        first = client.post(
            "/v1/chat/completions", {"messages": [ASK], "session_id": "s", "temperature": 0}, one
        )
        again = [ASK, first.json()["choices"][0]["message"], MORE]
        body = {"messages": again, "session_id": "s", "temperature": 0, "return_token_ids": True}
        theirs = client.post("/v1/chat/completions", body, two).json()["prompt_token_ids"]
        own = client.post("/v1/chat/completions", body, one).json()["prompt_token_ids"]
        assert theirs != own


def test_sessions_and_responses_are_bounded_in_bytes() -> None:
    ended: list[float] = []
    sessions = SessionStore(1000, ended.append, max_bytes=10_000)
    for number in range(100):
        session = Session(
            turns=(("user", "x" * 1000),), prompt=(1,), output=(2,), text="y", started_s=0.0, ended_s=number
        )
        sessions.put("owner", str(number), session)
        sessions.put("owner", str(number), session)
    kept = [number for number in range(100) if sessions.get("owner", str(number))]
    assert kept == list(range(100 - len(kept), 100))
    assert len(kept) == 9 and len(ended) == 91

    responses = ResponseStore(1000, max_bytes=10_000)
    for number in range(100):
        responses.put(str(number), Stored(owner="a", body={"x": "y" * 1000}, messages=[]))
    assert responses.get("99", "a", param="id").owner == "a"
    responses.remove("99", "a")
    for gone in ("0", "90", "99"):
        with pytest.raises(ApiError):
            responses.get(gone, "a", param="id")


def test_one_that_is_larger_than_all_may_be_is_not_kept() -> None:
    responses = ResponseStore(10, max_bytes=100)
    responses.put("large", Stored(owner="a", body={"x": "y" * 1000}, messages=[]))
    responses.put("small", Stored(owner="a", body={}, messages=[]))
    assert responses.get("small", "a", param="id").body == {}
    with pytest.raises(ApiError):
        responses.get("large", "a", param="id")


def test_a_smaller_model_answers_only_when_told_to_and_only_under_load() -> None:
    main, small = PieceBackend(), PieceBackend(pieces=("Hi",), name="small")
    config = ServerConfig(overload="smaller", limits=Limits(inflight_sequences=4))
    app = create_app(main, config, smaller=small)
    client, service = Client(app), app.state.service
    body = client.chat().json()
    assert (body["model"], body["choices"][0]["message"]["content"]) == ("stub", "Hello world")
    with service.admission.admit(sequences=3, prompt_tokens=1):
        for stream in (False, True):
            response = client.chat(stream=stream)
            assert response.headers["x-sgrt-degraded"] == "small"
            answer = events(response)[0] if stream else response.json()
            assert answer["model"] == "small"
        assert client.complete().json()["choices"][0]["text"] == "Hi"
        assert client.chat(model="other").status_code == 404
        assert client.post("/generate", {"text": "go"}).json()["chunks"][0]["text"] == "Hello"
    assert "x-sgrt-degraded" not in client.chat().headers
    assert service.admission.num_sequences == 0
    lines = client.get("/metrics").text.splitlines()
    assert 'sgrt:degraded_requests_total{model_name="stub",policy="smaller"} 3' in lines
    for name, count in (("stub", 3), ("small", 3)):
        finished = f'sgrt:request_success_total{{model_name="{name}",finished_reason="end_of_text"}} {count}'
        assert finished in lines
    assert sum(line.startswith("# TYPE sgrt:request_success_total ") for line in lines) == 1
    assert sum(line.startswith("process_resident_memory_bytes") for line in lines) == 1


@pytest.mark.parametrize("overload", ["refuse", "smaller"])
def test_a_smaller_model_and_the_policy_that_uses_it_go_together(overload: str) -> None:
    smaller = PieceBackend() if overload == "refuse" else None
    with pytest.raises(InvalidRequest, match="overload"):
        create_app(PieceBackend(), ServerConfig(overload=overload), smaller=smaller)  # type: ignore[arg-type]  # a literal


def test_answers_are_shortened_only_when_told_to_and_only_under_load() -> None:
    limits = Limits(inflight_sequences=8)
    with serving(
        backend := PieceBackend(), limits=limits, overload="shorten", overload_max_tokens=5
    ) as client:
        admission = client.app.state.service.admission
        assert "x-sgrt-shortened" not in client.chat(max_tokens=50).headers
        with admission.admit(sequences=6, prompt_tokens=0):
            response = client.chat(max_tokens=50)
            assert response.headers["x-sgrt-shortened"] == "5"
            assert backend.calls[-1].sampling.max_tokens == 5
            assert client.complete(max_tokens=50).headers["x-sgrt-shortened"] == "5"
            for stream in (False, True):
                body = {"input": "go", "max_output_tokens": 50, "stream": stream}
                assert client.post("/v1/responses", body).headers["x-sgrt-shortened"] == "5"
            assert client.app.state.service.metrics.degraded.total == 4
            assert "x-sgrt-shortened" not in client.chat(max_tokens=3).headers
            client.chat(max_tokens=50, response_format={"type": "json_object"})
            assert backend.calls[-1].sampling.max_tokens == 50
    with (
        serving(PieceBackend(), limits=limits) as client,
        client.app.state.service.admission.admit(sequences=6, prompt_tokens=0),
    ):
        assert "x-sgrt-shortened" not in client.chat(max_tokens=50).headers


@pytest.mark.parametrize(
    "settings",
    [{"overload_max_tokens": 0}, {"completion_max_tokens": 0}, {"reasoning_format": "deepseek"}],
    ids=lambda settings: next(iter(settings)),
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object]) -> None:
    (name,) = settings
    with pytest.raises(InvalidRequest, match=name):
        ServerConfig(**settings)  # type: ignore[arg-type]  # from a table
