"""An event loop on a thread of its own, for programs run from ordinary code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class LoopThread:
    """A context manager around a running loop. It also works where another loop runs already."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sgrt-loop", daemon=True)

    def __enter__(self) -> LoopThread:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.submit(_wind_down()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start work on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the loop and wait; when the wait is interrupted (Ctrl-C), the work is cancelled first."""
        future = self.submit(work)
        try:
            return future.result()
        except BaseException:
            if not future.done():
                future.cancel()
            raise


async def _wind_down() -> None:
    """Cancel every other task of the loop, wait until they are gone, close generators left open, end its threads."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_asyncgens()
    await asyncio.get_running_loop().shutdown_default_executor()
