"""One route as an ASGI application: read the body, run the handler, send its reply.

While a handler works, the connection is watched; when the client goes away the handler is cancelled, which
closes its generators and so cancels the calls behind them. This holds for whole answers and for streams.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass

from starlette.types import Receive, Scope, Send

from sgrt.server.auth import Caller
from sgrt.server.errors import ApiError, from_exception
from sgrt.server.json_body import JsonValue, parse_object
from sgrt.server.replies import Reply, StreamReply, TextReply, error_reply, event

_log = logging.getLogger("sgrt.server")
_INLINE_BYTES = 32 * 1024  # larger bodies are read beside the event loop
_KEEP_ALIVE = b": keep-alive\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A request as a handler sees it. `body` is empty for methods without one."""

    caller: Caller
    body: Mapping[str, JsonValue]
    path_params: Mapping[str, str]


Handler = Callable[[Incoming], Awaitable[Reply]]


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointLimits:
    """What an endpoint accepts, and its patience.

    A body must arrive in `body_timeout_s`, an event of a stream be taken in `stall_timeout_s`; an idle stream shows
    life every `keep_alive_s`.
    """

    body_bytes: int
    json_depth: int
    keep_alive_s: float
    body_timeout_s: float = 30.0
    stall_timeout_s: float = 60.0


class Endpoint:
    """The ASGI application of one route."""

    def __init__(
        self,
        handler: Handler,
        *,
        method: str,
        limits: EndpointLimits,
        on_disconnect: Callable[[], None] = lambda: None,
    ) -> None:
        self._handler = handler
        self._method = method
        self._limits = limits
        self._on_disconnect = on_disconnect

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        try:
            body = await self._read(scope, receive)
            incoming = Incoming(
                caller=scope.get("sgrt.caller", Caller(salt="")),
                body=body,
                path_params=scope.get("path_params", {}),
            )
        except ApiError as error:
            await _send_text(send, error_reply(error))
            return
        except ClientGone:
            return
        work = asyncio.ensure_future(self._respond(incoming, send))
        watch = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({work, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self._on_disconnect()
        finally:
            await _end(watch)
            await _end(work)

    async def _respond(self, incoming: Incoming, send: Send) -> None:
        try:
            reply = await self._handler(incoming)
        except Exception as error:  # noqa: BLE001 every failure becomes an answer; unknown ones are logged
            _log_unknown(error)
            reply = error_reply(from_exception(error))
        if isinstance(reply, TextReply):
            await _send_text(send, reply)
        else:
            await self._send_stream(send, reply)

    async def _send_stream(self, send: Send, reply: StreamReply) -> None:
        headers = {"cache-control": "no-cache", "x-accel-buffering": "no", **reply.headers}
        pulse = _Pulse(send, self._limits)
        try:
            async with aclosing(reply.events) as events:
                await _start(send, 200, "text/event-stream; charset=utf-8", headers)
                await _body(send, reply.first, more=True)
                with pulse.watching():
                    async for item in events:
                        await pulse.body(item)
        except asyncio.CancelledError:
            if not pulse.is_stalled:
                raise
            self._on_disconnect()  # a client that does not read is as good as gone, and its place is wanted
            return
        except Exception as error:  # noqa: BLE001 the 200 is out: the error goes into the stream
            _log_unknown(error)
            await _body(send, event(from_exception(error).body), more=True)
        await _body(send, reply.last_event, more=False)

    async def _read(self, scope: Scope, receive: Receive) -> Mapping[str, JsonValue]:
        if self._method != "POST":
            return {}
        headers: dict[bytes, bytes] = dict(scope["headers"])
        media_type = headers.get(b"content-type", b"application/json").split(b";")[0].strip().lower()
        if not (media_type == b"application/json" or media_type.endswith(b"+json")):
            raise ApiError(415, "the body must be application/json")
        try:
            async with asyncio.timeout(self._limits.body_timeout_s):
                raw = await _read_body(headers, receive, self._limits.body_bytes)
        except TimeoutError:
            raise ApiError(408, "the body did not come in time", code="body_timeout") from None
        if not raw:
            return {}  # what a route needs is missed by its own check
        if len(raw) <= _INLINE_BYTES:
            return parse_object(raw, max_depth=self._limits.json_depth)
        return await asyncio.to_thread(parse_object, raw, max_depth=self._limits.json_depth)


class _Pulse:
    """Sends the items of a stream, shows life while there are none, and gives up on a client that does not read.

    One clock for the stream, not a timeout for each item: setting one up costs more than sending.
    """

    def __init__(self, send: Send, limits: EndpointLimits) -> None:
        self._send = send
        self._limits = limits
        self._is_sending = False
        self._num_sent = 0
        self.is_stalled = False

    async def body(self, item: bytes) -> None:
        """Send one item; cancelled once it has not been taken for too long."""
        self._is_sending = True
        await _body(self._send, item, more=True)
        self._is_sending = False
        self._num_sent += 1

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the task that is running, while the block does."""
        task = asyncio.current_task()
        assert task is not None, "streams are sent by tasks"
        clocks = [asyncio.ensure_future(clock) for clock in (self._show_life(), self._end_stalled(task))]
        try:
            yield
        finally:
            for clock in clocks:
                clock.cancel()

    async def _show_life(self) -> None:
        """A comment every so often keeps proxies from closing a stream that waits for its first token."""
        while True:
            await asyncio.sleep(self._limits.keep_alive_s)
            if not self._is_sending:
                await self.body(_KEEP_ALIVE)

    async def _end_stalled(self, task: asyncio.Task[object]) -> None:
        """Cancel the task once nothing was taken for the limit, or up to a quarter more."""
        looks, num_sent = 0, -1
        while looks < 4:
            await asyncio.sleep(self._limits.stall_timeout_s / 4)
            is_same = self._is_sending and num_sent == self._num_sent
            looks, num_sent = looks + 1 if is_same else 0, self._num_sent
        self.is_stalled = True
        task.cancel()


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel a task and wait until it is over. What failed beyond an answer (but a lost connection) is logged."""
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    elif not task.cancelled():
        error = task.exception()
        if error is not None and not isinstance(error, OSError):
            _log.error("an answer could not be sent: %s", type(error).__name__, exc_info=error)


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _read_body(headers: Mapping[bytes, bytes], receive: Receive, limit: int) -> bytes:
    declared = headers.get(b"content-length", b"0")
    if declared.isdigit() and int(declared) > limit:
        raise ApiError(413, f"the body has {int(declared)} bytes; at most {limit} are taken")
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise ApiError(413, f"the body has more than {limit} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


async def _send_text(send: Send, reply: TextReply) -> None:
    headers = {"content-length": str(len(reply.body)), **reply.headers}
    await _start(send, reply.status, reply.content_type, headers)
    await _body(send, reply.body, more=False)


async def _start(send: Send, status: int, content_type: str, headers: Mapping[str, str]) -> None:
    raw = [(b"content-type", content_type.encode("latin-1"))]
    raw += [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def _body(send: Send, body: bytes, *, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


def _log_unknown(error: Exception) -> None:
    if from_exception(error).status == 500:
        _log.error("a request failed: %s", type(error).__name__, exc_info=error)
