"""One text being scored: the log-probabilities of its tokens, in order."""

from __future__ import annotations

from sgrt.engine.sequence import Sequence
from sgrt_frontend.call import Score, Usage


class Scoring:
    """Collects log-probabilities of a sequence's prompt from `score_from` on."""

    __slots__ = ("_logprobs", "sequence")

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self._logprobs: dict[int, float] = {}

    def wanted(self, num_rows: int, end: int) -> list[int]:
        """The tokens whose log-probabilities the last `num_rows` positions before `end` give."""
        return self.sequence.tokens[end - num_rows + 1 : end + 1]

    def take(self, end: int, logprobs: list[float]) -> None:
        """Record log-probabilities given by the last positions before `end`."""
        first = end - len(logprobs) + 1
        self._logprobs.update(enumerate(logprobs, first))

    @property
    def is_complete(self) -> bool:
        """Whether all positions were computed."""
        return self.sequence.num_remaining == 0

    def score(self) -> Score:
        """The result. A preempted sequence computes some positions twice; each counts once."""
        request = self.sequence.request
        assert request.score_from is not None, "only requests with score_from are scored"
        return Score(
            logprobs=tuple(self._logprobs[place] for place in range(request.score_from, len(request.prompt))),
            usage=Usage(
                prompt_tokens=len(request.prompt),
                cached_tokens=self.sequence.cached_tokens or 0,
                output_tokens=0,
            ),
        )
