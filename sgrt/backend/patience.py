"""How a client waits for a server that is full: as long as it was told to, a little longer each time, and not for ever."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from sgrt.errors import Overloaded, SgrtError

_LEAST_S = 0.02
_MOST_S = 10.0


class Patience:
    """The waiting of one call, `limit_s` seconds in all."""

    def __init__(self, limit_s: float, *, draw: Callable[[], float] = random.random) -> None:
        """`draw` gives numbers in [0, 1): they part clients that were refused together."""
        self._limit_s = limit_s
        self._draw = draw
        self._num_waits = 0
        self.waited_s = 0.0

    async def wait(self, error: SgrtError) -> None:
        """Wait before the call is sent again. What never passes, or takes too long, is raised.

        Raises:
            SgrtError: `error`, which is not that the server is full, or there is no time left.
        """
        if not isinstance(error, Overloaded):
            raise error
        told_s = max(error.retry_after_s, _LEAST_S)
        wait_s = max(told_s, min(told_s * 1.5**self._num_waits, _MOST_S)) * (1 + self._draw() / 4)
        if self.waited_s + wait_s > self._limit_s:
            raise error
        self._num_waits += 1
        self.waited_s += wait_s
        await asyncio.sleep(wait_s)
