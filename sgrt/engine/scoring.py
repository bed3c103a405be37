"""One text being scored: the log-probabilities of the tokens that may follow at its positions."""

from __future__ import annotations

from sgrt.engine.score_tree import PathScores, Targets, Top
from sgrt.engine.sequence import Sequence


class Scoring:
    """Collects log-probabilities, row by row, of a sequence that asks for them."""

    __slots__ = ("_first_row", "_rows", "_top", "sequence")

    def __init__(self, sequence: Sequence) -> None:
        assert sequence.request.score_from is not None, "only requests with score_from are scored"
        self.sequence = sequence
        self._first_row = sequence.request.score_from - 1
        self._rows: dict[int, tuple[float, ...]] = {}
        self._top: dict[int, Top] = {}

    @property
    def num_top(self) -> int:
        """How many alternatives are wanted at each place."""
        return self.sequence.request.score_top

    def wanted(self, num_rows: int, end: int) -> Targets:
        """The tokens whose log-probabilities the last `num_rows` positions before `end` give."""
        first = end - num_rows - self._first_row
        return self.sequence.request.score_targets[first : first + num_rows]

    def take(self, end: int, rows: list[tuple[float, ...]], top: list[Top]) -> None:
        """Record log-probabilities, and the alternatives that are wanted, given by the last positions before `end`."""
        first = end - len(rows) - self._first_row
        self._rows.update(enumerate(rows, first))
        self._top.update(enumerate(top, first))

    @property
    def is_complete(self) -> bool:
        """Whether all positions were computed."""
        return self.sequence.num_remaining == 0

    def scores(self) -> PathScores:
        """The result. A preempted sequence computes some positions twice; each counts once."""
        places = range(len(self.sequence.request.score_targets))
        return PathScores(
            rows=tuple(self._rows[place] for place in places),
            top=tuple(self._top[place] for place in places) if self.num_top else (),
            cached_tokens=self.sequence.cached_tokens or 0,
        )
