"""Running the application under uvicorn: drain on the first SIGTERM, stop on the second."""

from __future__ import annotations

import gc
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from sgrt.server.config import ServerConfig
from sgrt.server.protocol import ImpatientProtocol
from sgrt.server.service import Service

_HEADER_BYTES = 64 * 1024
_BACKLOG = 2048
# Longer than clients keep connections: one that we close may have a request on its way in.
_IDLE_S = 75
_CLOSING_S = 2  # what connections get to close once nothing is in flight
_STOPPING_S = 1.0  # what requests get to be told that the server stops


@contextmanager
def short_collections() -> Iterator[None]:
    """Keep what is loaded by now out of the garbage collector's sight while the block runs.

    A vocabulary and a tokenizer are a million objects that never become garbage. A full collection that visits them
    stops every thread for 50 to 150 ms, which clients see as a stream that stutters; one that does not takes a few.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class DrainingServer(uvicorn.Server):
    """A uvicorn server that refuses new work and finishes what is in flight before it exits."""

    def __init__(
        self,
        app: Starlette,
        config: ServerConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_ready: Callable[[str], None] = lambda url: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=config.host,
                port=config.port,
                http=ImpatientProtocol,
                ws="none",
                lifespan="off",
                backlog=_BACKLOG,
                access_log=config.log_requests,
                log_level="info" if config.log_requests else "warning",
                server_header=False,
                timeout_keep_alive=_IDLE_S,
                timeout_graceful_shutdown=_CLOSING_S,
                h11_max_incomplete_event_size=_HEADER_BYTES,
            )
        )
        service = app.state.service
        assert isinstance(service, Service), "create_app puts its service there"
        self._service = service
        self._drain_timeout_s = config.drain_timeout_s
        self._clock = clock
        self._on_ready = on_ready
        self._draining_since: float | None = None
        self._stopping_since: float | None = None
        self._is_stop_asked = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains; the second stops, and tells those whom it leaves unserved."""
        if self._draining_since is None:
            self._draining_since = self._clock()
            self._service.admission.drain()
        else:
            self._is_stop_asked = True  # requests belong to the event loop, which a signal may find anywhere

    def drain(self) -> None:
        """As the first SIGTERM."""
        if self._draining_since is None:
            self.handle_exit(signal.SIGTERM, None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        if self.started:
            self._on_ready(self.url)

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; true ends the server."""
        if self._draining_since is not None:
            self._go_down(self._clock(), self._draining_since)
        return await super().on_tick(counter)

    def _go_down(self, now: float, draining_since: float) -> None:
        is_idle = self._service.admission.num_requests == 0
        if self._stopping_since is not None:
            self.force_exit = now - self._stopping_since > _STOPPING_S
        elif not is_idle and (self._is_stop_asked or now - draining_since > self._drain_timeout_s):
            self._stopping_since = now
            self._service.stop()
        self.should_exit = is_idle or self.force_exit

    @property
    def url(self) -> str:
        """Where the server listens, the port the system gave it included."""
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"
