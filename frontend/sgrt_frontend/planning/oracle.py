"""Decisions of a planning run: which of several known values a branch of the program sees."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgrt_frontend.errors import SgrtError
from sgrt_frontend.source import Source, caller_source


class NeedsValue(SgrtError):
    """The body needs a value that only a model (or an argument) can give; planning ends here. `text` is its stand-in."""

    def __init__(self, what: str, *, text: str = "") -> None:
        self.text = text
        self.source: Source = caller_source()
        super().__init__(f"{self.source}: {what} needs a value that only a model can give")


@dataclass(slots=True)
class Oracle:
    """Answers decisions by key, the first option for a new key; remembers keys in the order in which they came."""

    given: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def decide(self, key: str, count: int) -> int:
        """The option to take at a decision point with `count` options."""
        self.counts.setdefault(key, count)
        return self.given.setdefault(key, 0)

    def following(self) -> dict[str, int] | None:
        """The decisions of the next run in depth-first order; None when all combinations were taken."""
        keys = list(self.counts)
        for position in range(len(keys) - 1, -1, -1):
            key = keys[position]
            if self.given[key] + 1 < self.counts[key]:
                kept = {earlier: self.given[earlier] for earlier in keys[:position]}
                return {**kept, key: self.given[key] + 1}
        return None
