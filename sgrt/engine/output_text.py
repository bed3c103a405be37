"""The text of one output as it grows: whole characters only, stop strings found and held back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class TextDecoder(Protocol):
    """Turns tokens into text piece by piece."""

    def feed(self, token_ids: Sequence[int]) -> str:
        """The characters that `token_ids` complete."""
        ...


class OutputText:
    """Text that may be shown so far.

    Of several stop strings the one that is complete first wins (of two that end together the longer
    one), so that the result does not depend on how the text is cut into tokens. Text that may still become a
    stop string is held back.
    """

    __slots__ = ("_decoder", "_held", "_includes_stop", "_stops", "stop")

    def __init__(
        self, decoder: TextDecoder, *, stops: tuple[str, ...] = (), includes_stop: bool = False
    ) -> None:
        self._decoder = decoder
        self._stops = stops
        self._includes_stop = includes_stop
        self._held = ""
        self.stop: str | None = None

    def feed(self, token_ids: Sequence[int], *, may_stop: bool = True) -> str:
        """Add tokens; returns the text to show now. Sets `stop` when a stop string is complete."""
        text = self._decoder.feed(token_ids)
        if not self._stops:
            return text
        self._held += text
        if may_stop and (found := self._first_stop()) is not None:
            start, self.stop = found
            shown = self._held[: start + len(self.stop)] if self._includes_stop else self._held[:start]
            self._held = ""
            return shown
        cut = len(self._held) - self._longest_beginning()
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def finish(self) -> str:
        """The text still held back, once no more tokens come. Nothing after a stop string."""
        if self.stop is not None:
            return ""
        rest, self._held = self._held, ""
        return rest

    def _first_stop(self) -> tuple[int, str] | None:
        """Start and text of the stop string that is complete first."""
        best: tuple[int, int, str] | None = None
        for stop in self._stops:
            start = self._held.find(stop)
            if start >= 0 and (best is None or (start + len(stop), start) < best[:2]):
                best = (start + len(stop), start, stop)
        return None if best is None else (best[1], best[2])

    def _longest_beginning(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:length]):
                    longest = length
                    break
        return longest
