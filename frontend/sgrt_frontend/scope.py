"""Scopes: groups of calls that are cancelled together, at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from weakref import WeakValueDictionary

from sgrt_frontend.errors import Cancelled, SgrtError
from sgrt_frontend.slot import Slot


class Scope:
    """The calls of a state, its forks and nested programs among them. Lives on the run's loop.

    A scope keeps its parent; a parent finds what is inside it as long as that lives: calls in flight, clocks and states
    keep their scope. Scopes nest as deep as a program forks, so nothing here recurses.
    """

    def __init__(self, parent: Scope | None) -> None:
        self._tasks: dict[asyncio.Task[None], Slot | None] = {}
        self._inside: WeakValueDictionary[int, Scope] = WeakValueDictionary()
        self._timers: list[asyncio.TimerHandle] = []
        self._parent = parent
        self._root: Scope = self if parent is None else parent._root
        self._has_cancelling = False
        if parent is not None:
            parent._inside[id(self)] = self
        # Read last: who cancels the parent from now on finds this scope.
        self.reason: SgrtError | None = parent.reason if parent is not None else None

    @property
    def is_cancelled(self) -> bool:
        """Whether calls in here are over."""
        return self.reason is not None

    @property
    def has_cancelling(self) -> bool:
        """Whether calls anywhere in the run were cancelled, or had a clock."""
        return self._root._has_cancelling

    def add(self, task: asyncio.Task[None], slot: Slot | None) -> None:
        """Take a call in; it leaves when it is done."""
        self._tasks[task] = slot
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)

    def cancel(self, reason: SgrtError | None = None) -> None:
        """Cancel every call in here and refuse later ones. On the run's loop."""
        self._root._has_cancelling = True
        reason = reason or Cancelled("cancelled by the program")
        for scope in self._tree():
            if scope.reason is None:
                scope._end(reason)

    def _end(self, reason: SgrtError) -> None:
        self.reason = reason
        self._stop_clocks()
        for task, slot in list(self._tasks.items()):
            if slot is not None:
                slot.fail(reason)
            task.cancel()

    def cancel_after(self, seconds: float, reason: SgrtError) -> None:
        """Cancel when the time is up. On the run's loop."""
        self._root._has_cancelling = True
        self._timers.append(asyncio.get_running_loop().call_later(seconds, self.cancel, reason))

    def close(self) -> None:
        """Stop the clocks in here; calls go on."""
        for scope in self._tree():
            scope._stop_clocks()

    def _stop_clocks(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def _tree(self) -> Iterator[Scope]:
        """All scopes from this one inwards. Other threads may add to it meanwhile: a list of references is taken at once."""
        waiting = [self]
        while waiting:
            scope = waiting.pop()
            yield scope
            waiting += [inner for found in reversed(scope._inside.valuerefs()) if (inner := found())]
