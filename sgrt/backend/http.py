"""HttpBackend: a running sgrt server as the backend of programs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self
from weakref import WeakKeyDictionary

import httpx

from sgrt.backend.call_codec import (
    call_to_json,
    chunk_from_json,
    description_from_json,
    plan_to_json,
    score_from_json,
)
from sgrt.errors import (
    BackendError,
    Cancelled,
    ConstraintError,
    ContextOverflow,
    DeadlineExceeded,
    InvalidRequest,
    Overloaded,
    SgrtError,
)
from sgrt_frontend.call import Call, CallPlan, Chunk, Description, Message, Score
from sgrt_frontend.spelling import Spelling

_CACHED_TEXTS = 4096
_CONSTRAINT_CODES = frozenset(
    {
        "invalid_constraint",
        "unsupported_schema",
        "unsatisfiable_constraint",
        "budget_too_small",
        "constraint_too_complex",
    }
)


class HttpBackend:
    """The backend protocol against a server's native routes; a context manager that closes its connections.

    What never changes (description, vocabulary, encoded texts) is fetched once and kept.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        timeout_s: float = 600.0,
        transport: httpx.BaseTransport | None = None,
        async_transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._base_url = base_url.rstrip("/")
        self._timeout = httpx.Timeout(timeout_s, connect=min(10.0, timeout_s))
        self._async_transport = async_transport
        self._client = httpx.Client(
            base_url=self._base_url, headers=self._headers, timeout=self._timeout, transport=transport
        )
        # Connections belong to an event loop; programs may use several.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()
        self._described: Mapping[str, Any] | None = None
        self._spelling: Spelling | None = None
        self._encoded = lru_cache(maxsize=_CACHED_TEXTS)(self._fetch_encoded)

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
        return description_from_json(self._description())

    def spelling(self) -> Spelling:
        """The bytes of every token."""
        if self._spelling is None:
            tokens = self._get("/vocabulary")["tokens"]
            self._spelling = Spelling([base64.b64decode(token) for token in tokens])
        return self._spelling

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        """Token ids of `text`, without a begin token."""
        return self._encoded(text, special)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of tokens."""
        return str(self._post("/decode", {"token_ids": list(token_ids)})["text"])

    def begin_tokens(self) -> tuple[int, ...]:
        """What every prompt starts with."""
        return tuple(map(int, self._description()["begin_tokens"]))

    def render(self, messages: Sequence[Message], *, open_assistant: bool) -> tuple[int, ...]:
        """Token ids of a chat under the model's own template."""
        turns = [{"role": message.role.value, "content": message.content} for message in messages]
        body = {"messages": turns, "open_assistant": open_assistant}
        return tuple(map(int, self._post("/render", body)["token_ids"]))

    async def generate(self, call: Call) -> AsyncIterator[Chunk]:
        """Run a call. Closing the iterator closes the connection, which cancels the call."""
        body = {**call_to_json(call), "stream": True}
        try:
            async with self._async_client().stream("POST", "/generate", json=body) as response:
                if response.status_code != httpx.codes.OK:
                    raise _error_of(response.status_code, await response.aread(), response.headers)
                async for chunk in _chunks(response):
                    yield chunk
        except httpx.HTTPError as error:
            raise _unreachable(self._base_url, error) from error

    async def score(
        self,
        prefix: Sequence[int],
        continuations: Sequence[Sequence[int]],
        *,
        cache_salt: str = "",
        plan: CallPlan | None = None,
    ) -> list[Score]:
        """Log-probabilities of each continuation after `prefix`."""
        body: dict[str, object] = {
            "prefix": list(prefix),
            "continuations": [list(tokens) for tokens in continuations],
        }
        if cache_salt:
            body["cache_salt"] = cache_salt
        if plan is not None:
            body["plan"] = plan_to_json(plan)
        try:
            response = await self._async_client().post("/score", json=body)
        except httpx.HTTPError as error:
            raise _unreachable(self._base_url, error) from error
        return [score_from_json(item) for item in _json_of(response)["scores"]]

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

    def _description(self) -> Mapping[str, Any]:
        if self._described is None:
            self._described = self._get("/describe")
        return self._described

    def _fetch_encoded(self, text: str, special: bool) -> tuple[int, ...]:
        return tuple(map(int, self._post("/encode", {"text": text, "special": special})["token_ids"]))

    def _get(self, path: str) -> Mapping[str, Any]:
        try:
            return _json_of(self._client.get(path))
        except httpx.HTTPError as error:
            raise _unreachable(self._base_url, error) from error

    def _post(self, path: str, body: Mapping[str, object]) -> Mapping[str, Any]:
        try:
            return _json_of(self._client.post(path, json=body))
        except httpx.HTTPError as error:
            raise _unreachable(self._base_url, error) from error


async def _chunks(response: httpx.Response) -> AsyncIterator[Chunk]:
    """The chunks of a stream, which must end properly: one that is cut says so."""
    async for line in response.aiter_lines():
        if not line.startswith("data: "):
            continue
        data = line.removeprefix("data: ")
        if data == "[DONE]":
            return
        value = json.loads(data)
        if "error" in value:
            raise _error_from(value["error"], {})
        yield chunk_from_json(value)
    raise BackendError("the server's stream ended before the call did")


def _json_of(response: httpx.Response) -> Mapping[str, Any]:
    if response.status_code != httpx.codes.OK:
        raise _error_of(response.status_code, response.content, response.headers)
    value: Mapping[str, Any] = response.json()
    return value


def _error_of(status: int, body: bytes, headers: Mapping[str, str]) -> SgrtError:
    try:
        error = json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return BackendError(f"the server answered {status}: {body[:200].decode('utf-8', 'replace')}")
    return _error_from({"status": status, **error}, headers)


def _error_from(error: Mapping[str, Any], headers: Mapping[str, str]) -> SgrtError:
    """The exception that the same fault raises in process."""
    message, code, param = str(error.get("message")), error.get("code"), str(error.get("param") or "")
    kind = error.get("type")
    if code == "context_length_exceeded":
        return ContextOverflow(message, param=param)
    if code in _CONSTRAINT_CODES:
        return ConstraintError(message, param=param)
    if code == "deadline_exceeded":
        return DeadlineExceeded(message)
    if code == "aborted":
        return Cancelled(message)
    if kind == "overloaded_error":
        return Overloaded(message, retry_after_s=float(headers.get("retry-after-ms", 1000)) / 1000)
    if kind == "invalid_request_error":
        return InvalidRequest(message, param=param)
    return BackendError(message)


def _unreachable(url: str, error: httpx.HTTPError) -> BackendError:
    return BackendError(f"the server at {url} cannot be reached: {type(error).__name__} {error}")
