"""HttpBackend: a running sgrt server as the backend of programs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

import httpx

from sgrt.backend.answers import error_of, event_value, unreachable, value_of
from sgrt.backend.call_codec import (
    call_to_json,
    chunk_from_json,
    description_from_json,
    score_from_json,
    terms_to_json,
)
from sgrt.backend.patience import Patience
from sgrt.errors import BackendError, InvalidRequest, SgrtError
from sgrt.process_mark import ProcessMark
from sgrt_frontend.call import ORDINARY, Call, Chunk, Description, Message, Score, ScoreTerms
from sgrt_frontend.spelling import Spelling

_CACHED_TEXTS = 4096
_PATIENCE_S = 60.0
_INTERVAL_S = 0.05  # as often as eyes can follow; an event costs both sides time, and a token need not be one
_Value = TypeVar("_Value")


class HttpBackend:
    """The backend protocol against a server's native routes; a context manager that closes its connections.

    What never changes (description, vocabulary, encoded texts) is fetched once and kept. A call that a full server
    refuses is sent again when the server said, for `patience_s` seconds (and the call's deadline) at most.

    The server sends the first chunk of a call and its end at once, and what comes between every `interval_s` seconds;
    0 sends every token by itself. A forked child opens connections of its own.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        timeout_s: float = 600.0,
        patience_s: float = _PATIENCE_S,
        interval_s: float = _INTERVAL_S,
        transport: httpx.BaseTransport | None = None,
        async_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Nothing is sent yet.

        Raises:
            InvalidRequest: `base_url` is no URL of a server: `http://` or `https://`, a host, and no path of OpenAI's
                routes (a `/v1` at its end is left out).
        """
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._base_url = _server_url(base_url)
        self._timeout = httpx.Timeout(timeout_s, connect=min(10.0, timeout_s))
        self._patience_s = patience_s
        self._interval_s = interval_s
        self._transport = transport
        self._async_transport = async_transport
        self._connect()
        self._described: tuple[Description, tuple[int, ...]] | None = None
        self._spelling: Spelling | None = None
        self._encoded = lru_cache(maxsize=_CACHED_TEXTS)(self._fetch_encoded)

    def _connect(self) -> None:
        self._process = ProcessMark()
        self._client = httpx.Client(
            base_url=self._base_url, headers=self._headers, timeout=self._timeout, transport=self._transport
        )
        # Connections belong to an event loop; programs may use several.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

    def _own_client(self) -> httpx.Client:
        """The connections of this process: two that read from one socket would take each other's answers."""
        if not self._process.is_here:
            self._connect()
        return self._client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that no event loop holds."""
        self._client.close()

    async def aclose(self) -> None:
        """Close all connections of this event loop, and those that no loop holds."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()
        self._client.close()

    def describe(self) -> Description:
        """What runs at the server."""
        return self._description()[0]

    def spelling(self) -> Spelling:
        """The bytes of every token."""
        if self._spelling is None:
            self._spelling = self._get("/vocabulary", _spelling)
        return self._spelling

    def encode(self, text: str, *, special: bool = False, is_start: bool = False) -> tuple[int, ...]:
        """Token ids of `text`, without a begin token."""
        return self._encoded(text, special, is_start)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        return self._post("/decode", {"token_ids": list(token_ids)}, _text)

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt starts with."""
        return self._description()[1]

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat under the model's own template."""
        turns = [{"role": message.role.value, "content": message.content} for message in messages]
        body = {"messages": turns, "open_assistant": open_assistant}
        return self._post("/render", body, _token_ids)

    async def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Run a call. Closing the iterator closes the connection, which cancels the call."""
        deadline_s = call.deadline_s
        patience = Patience(self._patience_s if deadline_s is None else min(self._patience_s, deadline_s))
        while True:
            left_s = None if deadline_s is None else max(0.001, deadline_s - patience.waited_s)
            sent = replace(call, deadline_s=left_s, interval_s=max(call.interval_s, self._interval_s))
            body = {**call_to_json(sent), "stream": True}
            try:
                async with self._async_client().stream("POST", "/generate", json=body) as response:
                    if response.status_code == httpx.codes.OK:
                        async for chunk in _chunks(response):
                            yield chunk
                        return
                    refusal = error_of(response.status_code, await response.aread(), response.headers)
            except httpx.HTTPError as error:
                raise unreachable(self._base_url, error) from error
            await patience.wait(refusal)

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        terms: ScoreTerms = ORDINARY,
    ) -> list[Score]:
        """Log-probabilities of each continuation after `prefix`."""
        body: dict[str, object] = {
            "prefix": list(prefix),
            "continuations": [list(tokens) for tokens in continuations],
            **terms_to_json(terms),
        }
        patience = Patience(self._patience_s)
        while True:
            try:
                response = await self._async_client().post("/score", json=body)
                return value_of(response, _scores)
            except httpx.HTTPError as error:
                raise unreachable(self._base_url, error) from error
            except SgrtError as error:
                refusal = error
            await patience.wait(refusal)

    def _async_client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = httpx.AsyncClient(
                base_url=self._base_url,
                headers=self._headers,
                timeout=self._timeout,
                transport=self._async_transport,
                # A connection kept open would outlive the loop of a program that has ended.
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
            )
            self._clients[loop] = client
        return client

    def _description(self) -> tuple[Description, tuple[int, ...]]:
        if self._described is None:
            self._described = self._get("/describe", _described)
        return self._described

    def _fetch_encoded(self, text: str, special: bool, is_start: bool) -> tuple[int, ...]:
        return self._post("/encode", {"text": text, "special": special, "is_start": is_start}, _token_ids)

    def _get(self, path: str, read: Callable[[Mapping[str, Any]], _Value]) -> _Value:
        try:
            response = self._own_client().get(path)
        except httpx.HTTPError as error:
            raise unreachable(self._base_url, error) from error
        return value_of(response, read)

    def _post(
        self, path: str, body: Mapping[str, object], read: Callable[[Mapping[str, Any]], _Value]
    ) -> _Value:
        try:
            response = self._own_client().post(path, json=body)
        except httpx.HTTPError as error:
            raise unreachable(self._base_url, error) from error
        return value_of(response, read)


def _server_url(text: str) -> str:
    """Where a server's native routes stand."""
    example = "write the address of the server, such as http://127.0.0.1:8000"
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError) as error:
        raise InvalidRequest(
            f"base_url: {text!r} is no URL ({error}); {example}", param="base_url"
        ) from error
    if url.scheme not in ("http", "https") or not url.host:
        raise InvalidRequest(f"base_url: {text!r} is no URL of http or https; {example}", param="base_url")
    return str(url).rstrip("/").removesuffix("/v1").rstrip("/")


async def _chunks(response: httpx.Response) -> AsyncIterator[Chunk]:
    """The chunks of a stream, which must end properly: one that is cut says so."""
    async for line in response.aiter_lines():
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            return
        yield event_value(data, chunk_from_json)
    raise BackendError("the server's stream ended before the call did")


def _described(value: Mapping[str, Any]) -> tuple[Description, tuple[int, ...]]:
    description = replace(description_from_json(value), is_remote=True)
    return description, tuple(map(int, value["begin_tokens"]))


def _spelling(value: Mapping[str, Any]) -> Spelling:
    return Spelling([base64.b64decode(token) for token in value["tokens"]])


def _token_ids(value: Mapping[str, Any]) -> tuple[int, ...]:
    return tuple(map(int, value["token_ids"]))


def _text(value: Mapping[str, Any]) -> str:
    return str(value["text"])


def _scores(value: Mapping[str, Any]) -> list[Score]:
    return [score_from_json(item) for item in value["scores"]]
