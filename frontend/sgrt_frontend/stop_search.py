"""Stop strings in text that arrives in pieces."""

from __future__ import annotations

from typing import NamedTuple


class _Found(NamedTuple):
    start: int
    stop: str


class StopSearch:
    """Passes text on up to a stop string, and holds back what may still become one.

    Of several stop strings the one that is complete first wins (of two that end together the longer one), so that the
    result does not depend on how the text is cut into pieces. `stop` is the one that was found.
    """

    __slots__ = ("_held", "_includes_stop", "_num_exempt", "_stops", "stop")

    def __init__(self, stops: tuple[str, ...], *, includes_stop: bool = False) -> None:
        self._stops = stops
        self._includes_stop = includes_stop
        self._held = ""
        self._num_exempt = 0  # the first characters of the held text, which came when no stop was allowed
        self.stop: str | None = None

    def feed(self, text: str, *, may_stop: bool = True) -> str:
        """Add text; returns what may be shown now. A stop string that is complete while `may_stop` is off is text."""
        if not self._stops:
            return text
        self._held += text
        found = self._first_stop() if may_stop else None
        if found is not None:
            self.stop = found.stop
            shown = self._held[: found.start + len(found.stop) * self._includes_stop]
            self._held = ""
            return shown
        if not may_stop:
            self._num_exempt = len(self._held)
        cut = len(self._held) - self._longest_beginning()
        shown, self._held = self._held[:cut], self._held[cut:]
        self._num_exempt = max(0, self._num_exempt - cut)
        return shown

    def flush(self) -> str:
        """The text held back, which no more will follow. Nothing after a stop string."""
        rest, self._held, self._num_exempt = self._held, "", 0
        return rest

    def _first_stop(self) -> _Found | None:
        """The stop string that is complete first, of those that end behind the exempt text."""
        found = []
        for stop in self._stops:
            start = self._held.find(stop, max(0, self._num_exempt - len(stop) + 1))
            if start >= 0:
                found.append(_Found(start, stop))
        return min(found, key=lambda one: (one.start + len(one.stop), one.start), default=None)

    def _longest_beginning(self) -> int:
        """Length of the longest end of the held text that begins a stop string."""
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(self._held)), longest, -1):
                if self._held.endswith(stop[:length]):
                    longest = length
                    break
        return longest
