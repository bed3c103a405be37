"""Finished responses, kept in memory for a while."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from sgrt.server.errors import ApiError
from sgrt.server.wire.chat import ChatMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A finished response with the conversation it ended."""

    owner: str
    body: dict[str, object]
    messages: list[ChatMessage]


class ResponseStore:
    """The latest responses, by id; the oldest goes when there are too many. Ids are seen by their owner alone."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._stored: OrderedDict[str, Stored] = OrderedDict()

    def put(self, response_id: str, stored: Stored) -> None:
        """Keep a response."""
        self._stored[response_id] = stored
        while len(self._stored) > self._capacity:
            self._stored.popitem(last=False)

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
        del self._stored[response_id]
