"""Finished responses, kept in memory for a while."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from sgrt.server.errors import ApiError
from sgrt.server.prompts import num_characters
from sgrt.server.replies import dumps
from sgrt.server.wire.chat import ChatMessage

_MESSAGE_BYTES = 1024  # of an object with its fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A finished response with the conversation it ended."""

    owner: str
    body: dict[str, object]
    messages: list[ChatMessage]

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(dumps(self.body)) + num_characters(self.messages) + _MESSAGE_BYTES * len(self.messages)


class ResponseStore:
    """The latest responses, by id; the oldest goes when there are too many, or too many bytes of them.

    Ids are seen by their owner alone.
    """

    def __init__(self, capacity: int, *, max_bytes: int) -> None:
        self._capacity = capacity
        self._max_bytes = max_bytes
        self._stored: OrderedDict[str, Stored] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def put(self, response_id: str, stored: Stored) -> None:
        """Keep a response."""
        self._stored[response_id] = stored
        self._sizes[response_id] = stored.size
        self._bytes += self._sizes[response_id]
        while len(self._stored) > self._capacity or self._bytes > self._max_bytes:
            self._forget(next(iter(self._stored)))

    def get(self, response_id: str, owner: str, *, param: str) -> Stored:
        """The response of this id.

        Raises:
            ApiError: status 404; this owner has none, or it was too long ago.
        """
        found = self._stored.get(response_id)
        if found is None or found.owner != owner:
            raise ApiError(
                404,
                f"there is no response {response_id[:100]!r}; responses are kept for a while in memory",
                param=param,
                code="response_not_found",
            )
        return found

    def remove(self, response_id: str, owner: str) -> None:
        """Forget a response; raises what `get` raises."""
        self.get(response_id, owner, param="response_id")
        self._forget(response_id)

    def _forget(self, response_id: str) -> None:
        del self._stored[response_id]
        self._bytes -= self._sizes.pop(response_id)
