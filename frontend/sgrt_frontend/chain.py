"""The history of a state as links, each settled once on the run's loop.

A state holds its last link. Forks hold the same link: sharing a prefix is sharing a reference.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sgrt_frontend.call import Role
from sgrt_frontend.errors import Cancelled
from sgrt_frontend.rope import Rope


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A constant that is not encoded yet, or template tokens (`tokens`), within turn number `turn`."""

    text: str = ""
    is_special: bool = False
    tokens: tuple[int, ...] | None = None
    turn: int = 0
    role: Role | None = None


class Link:
    """A point in a history: the rope up to it, once everything before it has run."""

    __slots__ = ("_future", "_rope")

    def __init__(self, rope: Rope | None = None) -> None:
        self._rope = rope
        self._future: asyncio.Future[Rope] | None = None

    @property
    def settled(self) -> Rope | None:
        """The rope, if it is known yet."""
        return self._rope

    @property
    def failure(self) -> BaseException | None:
        """Why there is no rope, once that is known."""
        if self._future is None or not self._future.done():
            return None
        return self._future.exception()

    @property
    def is_done(self) -> bool:
        """Whether the rope, or a failure, is there."""
        return self._rope is not None or (self._future is not None and self._future.done())

    def begin(self) -> None:
        """Called on the run's loop before anything that waits for this link is started."""
        self._future = asyncio.get_running_loop().create_future()

    def settle(self, rope: Rope) -> None:
        """Everything up to here has run."""
        assert self._future is not None, "a link begins before it settles"
        self._rope = rope
        if not self._future.done():
            self._future.set_result(rope)

    def fail(self, error: BaseException) -> None:
        """Something up to here failed; whoever waits gets the error."""
        assert self._future is not None, "a link begins before it fails"
        if self._future.done():
            return
        if isinstance(error, asyncio.CancelledError):
            error = Cancelled("what stands before was cancelled")
        self._future.set_exception(error)
        self._future.exception()  # seen: nobody has to wait for a link

    async def rope(self) -> Rope:
        """Await the rope. Only on the run's loop."""
        if self._rope is not None:
            return self._rope
        assert self._future is not None, "links begin in the order in which they were made"
        return await asyncio.shield(self._future)
