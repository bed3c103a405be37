"""Stop strings in text that arrives in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Passed(NamedTuple):
    """Text that may be shown, and the stop string that ended it if one did."""

    text: str
    stop: str | None


class StopScanner:
    """Holds back text that may still become a stop string.

    The stop string that is complete first wins; of several that end at the same character, the longest.
    """

    def __init__(self, stops: Sequence[str], *, keeps_stop: bool) -> None:
        self._stops = tuple(stops)
        self._keeps_stop = keeps_stop
        self._held = ""

    def feed(self, text: str) -> Passed:
        """What `text` lets through."""
        if not self._stops:
            return Passed(text, None)
        self._held += text
        found = self._first_stop()
        if found is not None:
            stop, start = found
            end = start + len(stop) if self._keeps_stop else start
            passed, self._held = self._held[:end], ""
            return Passed(passed, stop)
        keep = self._undecided()
        passed, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return Passed(passed, None)

    def flush(self) -> str:
        """The text held back, once no more will come."""
        held, self._held = self._held, ""
        return held

    def _first_stop(self) -> tuple[str, int] | None:
        found = [(self._held.find(stop), stop) for stop in self._stops]
        ends = [(start + len(stop), start, stop) for start, stop in found if start >= 0]
        if not ends:
            return None
        _, start, stop = min(ends)
        return stop, start

    def _undecided(self) -> int:
        longest = max(map(len, self._stops)) - 1
        for size in range(min(longest, len(self._held)), 0, -1):
            tail = self._held[len(self._held) - size :]
            if any(stop.startswith(tail) for stop in self._stops):
                return size
        return 0
