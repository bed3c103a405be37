"""Real sockets: clients that go away, servers that go down, keys, and work in flight."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable

import httpx
import pytest
from server_client import PieceBackend, listening, serving

from sgrt.server import protocol
from sgrt.server.app import create_app
from sgrt.server.config import Limits, ServerConfig
from sgrt.server.serving import DrainingServer
from sgrt_frontend.errors import InvalidRequest

CHAT = {"model": "stub", "messages": [{"role": "user", "content": "go"}]}


def wait_until(is_true: Callable[[], bool], seconds: float = 5.0) -> float:
    """How long it took until `is_true`, which must come within `seconds`."""
    start = time.monotonic()
    while not is_true():
        assert time.monotonic() - start < seconds, "it did not happen in time"
        time.sleep(0.005)
    return time.monotonic() - start


def raw_request(url: str, path: str, body: bytes) -> socket.socket:
    """A connection on which one request was sent and nothing was read."""
    parts = httpx.URL(url)
    connection = socket.create_connection((parts.host, parts.port or 80))
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/generate"])
def test_a_client_that_goes_away_is_not_served_on(path: str, stream: bool) -> None:
    backend = PieceBackend(pieces=["x"] * 1000, step_s=0.05)
    app = create_app(backend, ServerConfig())
    body: dict[str, object] = {
        "/generate": {"text": "go"},
        "/v1/completions": {"prompt": "go", "max_tokens": 900},
    }.get(path, CHAT) | {"stream": stream}  # type: ignore[operator]  # dicts of different values
    with listening(app) as url:
        connection = raw_request(url, path, json.dumps(body).encode())
        wait_until(lambda: backend.num_running == 1)
        before = backend.num_pieces
        connection.close()
        wait_until(lambda: backend.num_running == 0)
        assert backend.num_pieces - before <= 20  # a second of the backend's own pace
        assert backend.num_cancelled == 1
        assert app.state.service.admission.num_sequences == 0
        assert "sgrt:client_disconnects_total" in httpx.get(f"{url}/metrics").text


def test_health_answers_while_streams_run() -> None:
    backend = PieceBackend(pieces=["x"] * 100, step_s=0.005)
    with listening(create_app(backend, ServerConfig())) as url:

        async def run() -> tuple[list[str], int]:
            async with httpx.AsyncClient(
                base_url=url, timeout=30, limits=httpx.Limits(max_connections=80)
            ) as client:
                streams = [
                    asyncio.ensure_future(client.post("/v1/chat/completions", json={**CHAT, "stream": True}))
                    for _ in range(20)
                ]
                await asyncio.sleep(0.3)
                assert (await client.get("/health")).status_code == 200
                num_running = sum(not stream.done() for stream in streams)
                return [(await stream).text for stream in streams], num_running

        texts, num_running = asyncio.run(run())
    assert all(text.endswith("data: [DONE]\n\n") for text in texts)
    assert num_running > 0


def test_the_first_signal_finishes_what_is_in_flight_and_takes_nothing_new() -> None:
    backend = PieceBackend(pieces=["x"] * 40, is_held=True)
    app = create_app(backend, ServerConfig())
    ready = threading.Event()
    server = DrainingServer(app, ServerConfig(port=0), on_ready=lambda url: ready.set())
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(10)
    url = server.url
    answers: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{url}/v1/chat/completions", json=CHAT))
    )
    asking.start()
    wait_until(lambda: backend.num_running == 1)
    server.drain()
    refused = httpx.post(f"{url}/v1/chat/completions", json=CHAT)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert httpx.get(f"{url}/ready").status_code == 503
    assert httpx.get(f"{url}/health").status_code == 200
    backend.is_held = False
    asking.join(10)
    thread.join(10)
    assert not thread.is_alive()
    assert answers[0].json()["choices"][0]["message"]["content"] == "x" * 40


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_second_signal_or_a_late_one_stops_and_tells_who_is_left_unserved(
    is_streamed: bool, is_late: bool
) -> None:
    backend = PieceBackend(pieces=["x"] * 10_000, step_s=0.02)
    config = ServerConfig(port=0, drain_timeout_s=0.2 if is_late else 30.0)
    app = create_app(backend, config)
    ready = threading.Event()
    server = DrainingServer(app, config, on_ready=lambda url: ready.set())
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(10)
    body = json.dumps({**CHAT, "stream": is_streamed}).encode()
    connection = raw_request(server.url, "/v1/chat/completions", body)
    wait_until(lambda: backend.num_running == 1)
    server.drain()
    if not is_late:
        server.handle_exit(15, None)
    thread.join(5)
    assert not thread.is_alive()
    told = b"".join(iter(lambda: connection.recv(65536), b""))
    assert told.startswith(b"HTTP/1.1 200" if is_streamed else b"HTTP/1.1 503")
    assert b'"code":"shutting_down"' in told
    assert (b"data: [DONE]" in told) == is_streamed
    connection.close()


def test_a_key_is_asked_for_everywhere_but_at_health() -> None:
    with serving(PieceBackend(), api_keys=("secret",), admin_keys=("root",)) as client:
        assert client.get("/health").status_code == 200
        assert client.get("/v1/models").status_code == 401
        assert client.get("/metrics").status_code == 401
        assert client.get("/v1/models", authorization="Bearer wrong").status_code == 401
        assert client.get("/v1/models", authorization="Bearer secret").status_code == 200
        assert client.get("/v1/models", **{"x-api-key": "secret"}).status_code == 200
        assert client.get("/server_info", authorization="Bearer secret").status_code == 401
        assert client.get("/server_info", authorization="Bearer root").status_code == 200
        error = client.get("/v1/models").json()["error"]
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
        assert client.get("/v1/models", host="x/health?").status_code == 401


def test_keys_separate_the_caches_of_their_owners() -> None:
    with serving(backend := PieceBackend(), api_keys=("one", "two")) as client:
        for key in ("one", "two", "one"):
            client.post("/v1/completions", {"prompt": "go"}, {"authorization": f"Bearer {key}"})
        salts = [call.cache_salt for call in backend.calls]
        assert salts[0] == salts[2] != salts[1]
        assert "one" not in salts[0]


def test_an_open_server_is_refused_off_loopback() -> None:
    with pytest.raises(InvalidRequest, match="API key"):
        ServerConfig(host="0.0.0.0")
    assert ServerConfig(host="0.0.0.0", api_keys=("k",)).host == "0.0.0.0"
    assert ServerConfig(host="0.0.0.0", allow_open=True).allow_open


def test_a_request_can_be_aborted_by_its_exact_id_and_by_its_owner_alone() -> None:
    backend = PieceBackend(pieces=["x"] * 1000, step_s=0.02)
    app = create_app(backend, ServerConfig(api_keys=("one", "two")))
    with listening(app) as url:
        headers = {"authorization": "Bearer one"}
        with httpx.stream(
            "POST", f"{url}/v1/chat/completions", json={**CHAT, "stream": True}, headers=headers
        ) as got:
            lines = got.iter_lines()
            request_id = json.loads(next(lines).removeprefix("data: "))["id"]

            def abort(name: str, key: str) -> int:
                head = {"authorization": f"Bearer {key}"}
                return httpx.post(f"{url}/abort_request", json={"request_id": name}, headers=head).status_code

            assert abort(request_id[:-3], "one") == 404
            assert abort(request_id, "two") == 404
            assert abort(request_id, "one") == 200
            rest = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        assert rest[-1]["error"]["code"] == "aborted"
        wait_until(lambda: backend.num_running == 0)


def test_no_origin_is_allowed_unless_it_is_named() -> None:
    with serving(PieceBackend()) as client:
        assert "access-control-allow-origin" not in client.get("/health", origin="http://evil.test").headers
    with serving(PieceBackend(), allowed_origins=("http://good.test",)) as client:
        assert client.get("/health", origin="http://good.test").headers["access-control-allow-origin"]
        assert "access-control-allow-origin" not in client.get("/health", origin="http://evil.test").headers


def test_a_stream_that_waits_shows_that_it_lives() -> None:
    backend = PieceBackend(pieces=["x", "y"], step_s=0.3)
    with listening(create_app(backend, ServerConfig(keep_alive_s=0.1))) as url:
        text = httpx.post(f"{url}/v1/chat/completions", json={**CHAT, "stream": True}).text
    assert ": keep-alive" in text
    assert text.endswith("data: [DONE]\n\n")


def closes_after(connection: socket.socket) -> float:
    """The seconds until the other side closes."""
    start = time.monotonic()
    connection.settimeout(5)
    while connection.recv(4096):
        pass
    return time.monotonic() - start


def test_a_head_or_a_body_that_trickles_in_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_HEAD_S", 0.3)
    app = create_app(PieceBackend(), ServerConfig(body_timeout_s=0.3))
    with listening(app) as url:
        parts = httpx.URL(url)
        for sent in (b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost:"):
            with socket.create_connection((parts.host, parts.port or 80)) as connection:
                connection.sendall(sent)
                assert 0.2 < closes_after(connection) < 3
        head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{"
        with socket.create_connection((parts.host, parts.port or 80)) as connection:
            connection.settimeout(5)
            connection.sendall(head)
            assert b" 408 " in connection.recv(65536)
        assert httpx.post(f"{url}/v1/completions", json={"prompt": "go"}).status_code == 200


def test_a_client_that_does_not_read_loses_its_place() -> None:
    backend = PieceBackend(pieces=["x" * 100_000] * 1000)
    app = create_app(backend, ServerConfig(stall_timeout_s=0.3))
    with listening(app) as url:
        connection = raw_request(url, "/v1/chat/completions", json.dumps({**CHAT, "stream": True}).encode())
        wait_until(lambda: backend.num_running == 1)
        wait_until(lambda: app.state.service.admission.num_requests == 0)
        assert backend.num_cancelled == 1
        connection.close()


def test_heads_are_bounded() -> None:
    with serving(PieceBackend()) as client:
        assert client.get("/health", x="y" * 70_000).status_code == 431
        assert client.get("/health", **{f"x{number}": "y" for number in range(300)}).status_code == 431


def test_outputs_in_flight_are_bounded_over_all_requests() -> None:
    backend = PieceBackend(pieces=["x"] * 50, step_s=0.01)
    app = create_app(backend, ServerConfig(limits=Limits(inflight_sequences=2)))
    with listening(app) as url:

        async def run() -> list[int]:
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                answers = await asyncio.gather(
                    *(client.post("/v1/chat/completions", json=CHAT) for _ in range(6))
                )
                return sorted(answer.status_code for answer in answers)

        assert asyncio.run(run()) == [200, 200, 503, 503, 503, 503]
