"""Streams: a run as an iterator of events, in ordinary and in async code."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Generic, TypeVar

from sgrt_frontend.backend import Backend
from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.events import Delta, Event
from sgrt_frontend.execution import Body, Opened, execute
from sgrt_frontend.frames import UserFrames
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.options import RunOptions
from sgrt_frontend.planning.schedule import open_planned
from sgrt_frontend.state import State

R = TypeVar("R")


class AsyncStream(Generic[R]):
    """Events of a run on the running loop. Leaving the block early cancels the run.

    The run's failure is raised where the events end.
    """

    def __init__(self, body: Body, options: RunOptions, backend: Backend) -> None:
        self._body = body
        self._options = options
        self._backend = backend
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._opened: Opened[R] | None = None
        self._task: asyncio.Task[None] | None = None
        self._pool: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> AsyncStream[R]:
        self._opened = await open_planned(
            self._body, self._options, self._backend, listener=self._events.put_nowait
        )
        if not self._body.is_async:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="sgrt-body")
        run, state = self._opened
        self._task = asyncio.create_task(execute(run, self._body, state, self._pool))
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None, "entered"
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.exception()  # seen: it was raised where the events ended, or the block was left before
        if self._pool is not None:
            self._pool.shutdown()

    async def __aiter__(self) -> AsyncIterator[Event]:
        if self._task is None:
            raise InvalidRequest(
                "a stream is used as `async with program.astream(...) as events`", param="stream"
            )
        while (event := await self._events.get()) is not None:
            yield event
        self._events.put_nowait(None)  # for whoever iterates again
        with UserFrames():
            await self._task

    async def text(self, variable: str) -> AsyncIterator[str]:
        """The text of one variable, piece by piece (its first sample)."""
        async for event in self:
            if isinstance(event, Delta) and event.variable == variable and event.sample == 0 and event.text:
                yield event.text

    @property
    def state(self) -> State[R]:
        """The run's state; its variables can be read when the events have ended."""
        if self._opened is None:
            raise InvalidRequest("the stream has not begun", param="stream")
        return self._opened.state


class Stream(Generic[R]):
    """Events of a run in ordinary code: `with program.stream(x) as events: for event in events: ...`.

    Leaving the block early cancels the run. The run's failure is raised where the events end.
    """

    def __init__(self, body: Body, options: RunOptions, backend: Backend) -> None:
        self._body = body
        self._options = options
        self._backend = backend
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread: ExitStack | None = None
        self._opened: Opened[R] | None = None
        self._done: Future[None] | None = None

    def __enter__(self) -> Stream[R]:
        with ExitStack() as stack:
            thread = stack.enter_context(LoopThread())
            self._opened = thread.call(self._open())
            self._done = thread.submit(self._execute(self._opened))
            self._thread = stack.pop_all()
        return self

    async def _open(self) -> Opened[R]:
        return await open_planned(self._body, self._options, self._backend, listener=self._events.put)

    async def _execute(self, opened: Opened[R]) -> None:
        with ThreadPoolExecutor(1, thread_name_prefix="sgrt-body") as pool:
            try:
                await execute(opened.run, self._body, opened.state, pool)
            finally:
                self._events.put(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None, "entered"
        self._thread.__exit__(kind, error, trace)

    def __iter__(self) -> Iterator[Event]:
        if self._done is None:
            raise InvalidRequest("a stream is used as `with program.stream(...) as events`", param="stream")
        while (event := self._events.get()) is not None:
            yield event
        self._events.put(None)  # for whoever iterates again
        with UserFrames():
            self._done.result()

    def text(self, variable: str) -> Iterator[str]:
        """The text of one variable, piece by piece (its first sample)."""
        for event in self:
            if isinstance(event, Delta) and event.variable == variable and event.sample == 0 and event.text:
                yield event.text

    @property
    def state(self) -> State[R]:
        """The run's state; its variables can be read when the events have ended."""
        if self._opened is None:
            raise InvalidRequest("the stream has not begun", param="stream")
        return self._opened.state
