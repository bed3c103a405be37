"""Scopes: groups of calls that are cancelled together, at once."""

from __future__ import annotations

import asyncio

from sgrt_frontend.errors import Cancelled, SgrtError
from sgrt_frontend.slot import Slot


class Scope:
    """The calls of a state, its forks and nested programs among them. Lives on the run's loop."""

    def __init__(self, parent: Scope | None) -> None:
        self.reason: SgrtError | None = parent.reason if parent is not None else None
        self._tasks: dict[asyncio.Task[None], Slot | None] = {}
        self._children: list[Scope] = []
        self._timers: list[asyncio.TimerHandle] = []
        if parent is not None:
            parent._children.append(self)

    @property
    def is_cancelled(self) -> bool:
        """Whether calls in here are over."""
        return self.reason is not None

    @property
    def is_cancelled_anywhere(self) -> bool:
        """Whether calls in here, or in a scope inside, were cancelled or have a clock running."""
        return (
            self.is_cancelled
            or bool(self._timers)
            or any(child.is_cancelled_anywhere for child in self._children)
        )

    def add(self, task: asyncio.Task[None], slot: Slot | None) -> None:
        """Take a call in; it leaves when it is done."""
        self._tasks[task] = slot
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    def cancel(self, reason: SgrtError | None = None) -> None:
        """Cancel every call in here and refuse later ones. On the run's loop."""
        if self.reason is not None:
            return
        self.reason = reason or Cancelled("cancelled by the program")
        for timer in self._timers:
            timer.cancel()
        for task, slot in list(self._tasks.items()):
            if slot is not None:
                slot.fail(self.reason)
            task.cancel()
        for child in self._children:
            child.cancel(self.reason)

    def cancel_after(self, seconds: float, reason: SgrtError) -> None:
        """Cancel when the time is up. On the run's loop."""
        self._timers.append(asyncio.get_running_loop().call_later(seconds, self.cancel, reason))

    def close(self) -> None:
        """Stop the clocks in here; calls go on."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for child in self._children:
            child.close()
