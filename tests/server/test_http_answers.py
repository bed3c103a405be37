"""What an HttpBackend makes of answers that no sgrt server gives, and of a server that is full."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from server_client import PieceBackend, listening

import sgrt
from sgrt.backend.http import HttpBackend
from sgrt.backend.patience import Patience
from sgrt.server.app import create_app
from sgrt.server.config import Limits, ServerConfig
from sgrt_frontend.call import ORDINARY, Call, Message, Role, SamplingParams, Score, ScoreTerms
from sgrt_frontend.errors import BackendError, InvalidRequest, Overloaded, SgrtError


async def _generated(remote: HttpBackend, call: Call) -> str:
    return "".join([chunk.text async for chunk in remote.generate(call)])


def _generate(remote: HttpBackend) -> object:
    return asyncio.run(_generated(remote, Call(prompt=(1,))))


QUESTIONS: dict[str, Callable[[HttpBackend], object]] = {
    "describe": HttpBackend.describe,
    "begin_tokens": HttpBackend.begin_tokens,
    "spelling": HttpBackend.spelling,
    "encode": lambda remote: remote.encode("a"),
    "decode": lambda remote: remote.decode((1,)),
    "render": lambda remote: remote.render([Message(role=Role.USER, content="a")], open_assistant=True),
    "score": lambda remote: asyncio.run(remote.score((1,), [(2,)])),
    "generate": _generate,
}
NAMES = st.sampled_from(
    [
        "error",
        "message",
        "type",
        "code",
        "param",
        "token_ids",
        "scores",
        "logprobs",
        "usage",
        "text",
        "tokens",
        "index",
        "finish",
        "model",
        "context_tokens",
        "begin_tokens",
        "end_token_ids",
        "top",
        "prompt_tokens",
    ]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "a", "overloaded_error", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=8,
)
BODIES = (
    VALUES.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(NAMES, VALUES).map(lambda value: json.dumps(value).encode())
    | st.sampled_from([b"", b"<html>not here</html>", b"\xff\xfe", b"[" * 100_000, b'{"tokens": ["?"]}'])
)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms"]), st.sampled_from(["soon", "nan", "inf", "-1", "", "0"])
)


def answering(status: int, body: bytes, headers: dict[str, str]) -> HttpBackend:
    """A client of something that answers everything with this."""
    transport = httpx.MockTransport(lambda request: httpx.Response(status, content=body, headers=headers))
    return HttpBackend("http://server", patience_s=0.0, transport=transport, async_transport=transport)


@settings(deadline=None, max_examples=50)
@given(status=st.sampled_from([200, 200, 400, 404, 429, 500, 503]), body=BODIES, headers=HEADERS)
@pytest.mark.parametrize("question", QUESTIONS)
def test_whatever_answers_nothing_but_our_own_errors_comes_out(
    question: str, status: int, body: bytes, headers: dict[str, str]
) -> None:
    in_stream = b"data: " + body.replace(b"\n", b" ") + b"\n\n"
    for content in {body, in_stream} if question == "generate" else {body}:
        with answering(status, content, headers) as remote, suppress(SgrtError):
            QUESTIONS[question](remote)


@pytest.mark.parametrize("question", QUESTIONS)
def test_another_server_is_said_to_be_one(question: str) -> None:
    for status, body in [(404, b'{"error":"model not found"}'), (200, b"<html>hello</html>")]:
        with (
            answering(status, body, {}) as remote,
            pytest.raises(BackendError, match=r"hello|not found|ended"),
        ):
            QUESTIONS[question](remote)


@pytest.mark.parametrize(
    "url", ["http://server:no", "", "localhost:8123", "ftp://x", "http://", "server", None]
)
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match=r"base_url.*write the address of the server"):
        HttpBackend(url)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/behind/a/proxy", "/behind/a/proxy/v1"])
def test_the_address_that_other_clients_take_is_the_servers_too(path: str) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, json={"token_ids": []})

    HttpBackend(f"http://server{path}", transport=httpx.MockTransport(answer)).encode("a")
    assert asked == [f"{path.rstrip('/').removesuffix('/v1')}/encode"]


FULL = json.dumps({"error": {"message": "full", "type": "overloaded_error", "code": "queue_full"}}).encode()


def full_for(num_refusals: int, then: bytes) -> tuple[HttpBackend, list[dict[str, object]]]:
    """A client of a server that is full so many times, and the bodies it got."""
    bodies: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if len(bodies) <= num_refusals:
            return httpx.Response(503, content=FULL, headers={"retry-after-ms": "20"})
        return httpx.Response(200, content=then)

    return HttpBackend("http://server", async_transport=httpx.MockTransport(answer), patience_s=5.0), bodies


USAGE = {"prompt_tokens": 1, "cached_tokens": 0, "output_tokens": 1, "forced_tokens": 0}


def test_a_call_waits_for_a_server_that_is_full() -> None:
    stream = b'data: {"index": 0, "text": "hi"}\n\ndata: [DONE]\n\n'
    remote, bodies = full_for(2, stream)
    call = Call(prompt=(1,), deadline_s=30.0)
    assert asyncio.run(_generated(remote, call)) == "hi"
    deadlines = [body["deadline_s"] for body in bodies]
    assert deadlines[0] == 30.0
    assert sorted(deadlines, reverse=True) == deadlines  # type: ignore[type-var]  # numbers
    assert deadlines[2] < 29.97  # type: ignore[operator]  # a number
    remote, bodies = full_for(2, json.dumps({"scores": [{"logprobs": [-1.0], "usage": USAGE}]}).encode())
    (score,) = asyncio.run(remote.score((1,), [(2,)]))
    assert (score.logprobs, len(bodies)) == ((-1.0,), 3)


@pytest.mark.parametrize(("patience_s", "deadline_s"), [(0.1, None), (60.0, 0.1)])
def test_its_patience_ends(patience_s: float, deadline_s: float | None) -> None:
    transport = httpx.MockTransport(
        lambda request: httpx.Response(503, content=FULL, headers={"retry-after": "0"})
    )
    remote = HttpBackend("http://server", async_transport=transport, patience_s=patience_s)
    with pytest.raises(Overloaded, match="full"):
        asyncio.run(_generated(remote, Call(prompt=(1,), deadline_s=deadline_s)))


@given(
    told=st.lists(st.floats(0, 100), max_size=20),
    limit_s=st.floats(0, 0.5),
    drawn=st.floats(0, 1, exclude_max=True),
)
@settings(deadline=None, max_examples=20)
def test_it_never_comes_back_early_nor_waits_longer_than_it_has(
    told: list[float], limit_s: float, drawn: float
) -> None:
    async def wait() -> None:
        patience = Patience(limit_s, draw=lambda: drawn)
        for told_s in told:
            before_s = patience.waited_s
            try:
                await patience.wait(Overloaded("full", retry_after_s=told_s))
            except Overloaded:
                return
            assert patience.waited_s - before_s >= told_s * 0.999
            assert patience.waited_s <= limit_s

    asyncio.run(wait())


class SlowScores(PieceBackend):
    """Scores take a while."""

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        await asyncio.sleep(0.05)
        return await super().score(prefix, continuations, terms)


@sgrt.function
def rated(s: sgrt.State, text: str) -> str:
    s += text + " is: " + sgrt.select("rating", ["good", "bad", "a mess", "fine", "none", "other"])
    return str(s["rating"])


@pytest.mark.parametrize("inflight_sequences", [1024, 8])
def test_a_batch_of_selections_is_served_whole(inflight_sequences: int) -> None:
    limits = Limits(inflight_sequences=inflight_sequences)
    app = create_app(SlowScores(), ServerConfig(limits=limits, retry_after_s=0.05))
    with listening(app) as url, HttpBackend(url, patience_s=20.0) as remote:
        runs = rated.on(remote).map([f"text {number}" for number in range(32)])
    assert len([run.result for run in runs]) == 32


def test_a_score_takes_one_place_and_a_call_as_many_as_it_has_outputs() -> None:
    app = create_app(PieceBackend(), ServerConfig(limits=Limits(inflight_sequences=2)))
    with listening(app) as url, HttpBackend(url, patience_s=0.0) as remote:
        assert len(asyncio.run(remote.score((1,), [(2,)] * 100))) == 100
        with pytest.raises(Overloaded):
            asyncio.run(_generated(remote, Call(prompt=(1,), sampling=SamplingParams(n=3))))
