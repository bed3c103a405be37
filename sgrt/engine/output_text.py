"""The text of one output as it grows: whole characters only, stop strings found and held back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sgrt_frontend.stop_search import StopSearch


class TextDecoder(Protocol):
    """Turns tokens into text piece by piece."""

    def feed(self, token_ids: Sequence[int]) -> str:
        """The characters that `token_ids` complete."""
        ...


class OutputText:
    """Text that may be shown so far; see `StopSearch`."""

    __slots__ = ("_decoder", "_search")

    def __init__(
        self, decoder: TextDecoder, *, stops: tuple[str, ...] = (), includes_stop: bool = False
    ) -> None:
        self._decoder = decoder
        self._search = StopSearch(stops, includes_stop=includes_stop)

    @property
    def stop(self) -> str | None:
        """The stop string that ended the text, if one did."""
        return self._search.stop

    def feed(self, token_ids: Sequence[int], *, may_stop: bool = True) -> str:
        """Add tokens; returns the text to show now. Sets `stop` when a stop string is complete."""
        return self._search.feed(self._decoder.feed(token_ids), may_stop=may_stop)

    def finish(self) -> str:
        """The text still held back, once no more tokens come. Nothing after a stop string."""
        return self._search.flush()
