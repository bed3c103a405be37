"""HTTP/1.1 on one connection, with an end to the patience: a request whose head trickles in is not waited for."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

_HEAD_S = 15.0  # from the first byte, or from the connection, to the end of the headers


class ImpatientProtocol(H11Protocol):
    """uvicorn's protocol, which would wait for the rest of a head for ever and keep a connection for it."""

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base
        """Expect a request."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Take what came; what is no whole head yet must become one in time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_timer()
        elif self._head_timer is None:
            self._expect_head()

    def on_response_complete(self) -> None:
        """The next request may take its time to begin: that is the keep-alive limit's business."""
        self._cancel_timer()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is expected any more."""
        self._cancel_timer()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(_HEAD_S, self._give_up)

    def _cancel_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_up(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
