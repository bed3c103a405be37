"""Event loops that have something to read, each woken once for all that a step gave it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

Wake = Callable[[], None]


def wake_at_once(loop: asyncio.AbstractEventLoop, wake: Wake) -> None:
    """Run `wake` on the loop's thread."""
    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:
        return  # the loop is closed: nobody waits any more


class Bells:
    """Collects whom to wake until `ring`, on one thread.

    Waking a loop is a system call, which gives the interpreter's lock away in the middle of a step; the loop's thread
    takes it to answer one stream, and the step waits. Rung at the end of the step, they answer beside the next one.
    """

    def __init__(self) -> None:
        self._due: dict[asyncio.AbstractEventLoop, list[Wake]] = {}

    def wake(self, loop: asyncio.AbstractEventLoop, wake: Wake) -> None:
        """Run `wake` on the loop's thread, once the bells are rung."""
        self._due.setdefault(loop, []).append(wake)

    def ring(self) -> None:
        """Wake all that are due."""
        due, self._due = self._due, {}
        for loop, wakes in due.items():
            wake_at_once(loop, partial(_run_all, wakes))


def _run_all(wakes: list[Wake]) -> None:
    for wake in wakes:
        wake()
