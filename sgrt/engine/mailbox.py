"""Results on their way from the engine's thread to whoever waits: an event loop or an ordinary thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from typing import Generic, TypeVar

from sgrt.engine.bells import Wake, wake_at_once

Item = TypeVar("Item")


class Mailbox(Generic[Item]):
    """A queue that ends: items, then either a normal end or an error. One consumer; never blocks the sender.

    A consumer on an event loop is woken through `wake_loop`, and at most once in `interval_s` after its first items,
    but for the end.
    """

    def __init__(
        self,
        *,
        wake_loop: Callable[[asyncio.AbstractEventLoop, Wake], None] = wake_at_once,
        interval_s: float = 0.0,
    ) -> None:
        self._wake_loop = wake_loop
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._error: Exception | None = None
        self._is_over = False
        self._wake: Callable[[], object] | None = None
        self._wakes_for_items = True

    @property
    def is_over(self) -> bool:
        """Whether the sender ended it; items may be left."""
        return self._is_over

    def push(self, item: Item) -> None:
        """Add an item."""
        with self._lock:
            self._items.append(item)
            if not self._wakes_for_items:
                return
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def fail(self, error: Exception) -> None:
        """End with an error, which is raised once the items before it were taken."""
        self._finish(error)

    def close(self) -> None:
        """End."""
        self._finish(None)

    async def __aiter__(self) -> AsyncIterator[Item]:
        """Items as they come. Raises the error it ends with."""
        async for batch in self.batches():
            for item in batch:
                yield item

    async def batches(self) -> AsyncIterator[list[Item]]:
        """Items as they come, with an interval all that are there together. Raises the error it ends with."""
        while True:
            items, waits = self._take_some()
            if items:
                yield items
            elif not waits:
                return
            await self._changed_async(gathers=bool(items) and self._interval_s > 0)

    def __iter__(self) -> Iterator[Item]:
        """Items as they come; blocks the calling thread. Raises the error it ends with."""
        while True:
            item, waits = self._take()
            if item is not None:
                yield item[0]
            elif not waits:
                return
            else:
                self._changed()

    def collect(self) -> list[Item]:
        """All items, once no more come; blocks the calling thread and never wakes it in between.

        Raises the error it ends with.
        """
        over = threading.Event()
        with self._lock:
            self._wakes_for_items = False
            is_over, self._wake = self._is_over, over.set
        if not is_over:
            over.wait()
        if self._error is not None:
            raise self._error
        return list(self._items)

    def _finish(self, error: Exception | None) -> None:
        with self._lock:
            if self._is_over:
                return
            self._error, self._is_over = error, True
            wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def _take(self) -> tuple[tuple[Item] | None, bool]:
        """The next item if there is one, and else whether more may come."""
        with self._lock:
            if self._items:
                return (self._items.popleft(),), True
            if self._is_over and self._error is not None:
                raise self._error
            return None, not self._is_over

    def _take_some(self) -> tuple[list[Item], bool]:
        """All items that are there, without an interval the next one, and whether more may come."""
        if self._interval_s == 0:
            item, waits = self._take()
            return ([] if item is None else [item[0]]), waits
        with self._lock:
            items, self._items = list(self._items), deque()
            if not items and self._is_over and self._error is not None:
                raise self._error
            return items, not self._is_over

    def _will_wake(self, wake: Callable[[], object], *, for_items: bool = True) -> bool:
        """Ask to be woken by the next change, or by the end alone; False when it is there already."""
        with self._lock:
            if (self._items and for_items) or self._is_over:
                return False
            self._wake, self._wakes_for_items = wake, for_items
            return True

    async def _changed_async(self, *, gathers: bool) -> None:
        """Wait for items or the end; who gathers waits for the interval, or the end."""
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        if not self._will_wake(lambda: self._wake_loop(loop, changed.set), for_items=not gathers):
            return
        with ExitStack() as timers:
            if gathers:
                timers.callback(loop.call_later(self._interval_s, changed.set).cancel)
            await changed.wait()

    def _changed(self) -> None:
        changed = threading.Event()
        if self._will_wake(changed.set):
            changed.wait()
