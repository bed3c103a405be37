"""One text being scored: the log-probabilities of its tokens, in order."""

from __future__ import annotations

from sgrt.engine.sequence import Sequence
from sgrt_frontend.call import Score, TokenLogprob, Usage

Top = tuple[TokenLogprob, ...]


class Scoring:
    """Collects log-probabilities of a sequence's prompt from `score_from` on."""

    __slots__ = ("_logprobs", "_top", "sequence")

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self._logprobs: dict[int, float] = {}
        self._top: dict[int, Top] = {}

    @property
    def num_top(self) -> int:
        """How many alternatives are wanted at each place."""
        return self.sequence.request.score_top

    def wanted(self, num_rows: int, end: int) -> list[int]:
        """The tokens whose log-probabilities the last `num_rows` positions before `end` give."""
        return self.sequence.tokens[end - num_rows + 1 : end + 1]

    def take(self, end: int, logprobs: list[float], top: list[Top]) -> None:
        """Record log-probabilities, and the alternatives that are wanted, given by the last positions before `end`."""
        first = end - len(logprobs) + 1
        self._logprobs.update(enumerate(logprobs, first))
        self._top.update(enumerate(top, first))

    @property
    def is_complete(self) -> bool:
        """Whether all positions were computed."""
        return self.sequence.num_remaining == 0

    def score(self) -> Score:
        """The result. A preempted sequence computes some positions twice; each counts once."""
        request = self.sequence.request
        assert request.score_from is not None, "only requests with score_from are scored"
        places = range(request.score_from, len(request.prompt))
        return Score(
            logprobs=tuple(self._logprobs[place] for place in places),
            top=tuple(self._top[place] for place in places) if request.score_top else (),
            usage=Usage(
                prompt_tokens=len(request.prompt),
                cached_tokens=self.sequence.cached_tokens or 0,
                output_tokens=0,
            ),
        )
