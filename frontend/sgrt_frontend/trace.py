"""Trace: every call of a run, with its tokens, seed, timing and cache hits."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from sgrt_frontend.call import Call, SamplingParams, Score
from sgrt_frontend.memo import Memo
from sgrt_frontend.rope import Rope
from sgrt_frontend.slot import Sample
from sgrt_frontend.source import Source


class CallKind(Enum):
    """What a call asked for."""

    GENERATE = "generate"
    SELECT = "select"
    SCORE = "score"


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedCall:
    """One call as it happened. Times are seconds since the run began.

    `before` is the prompt, in parts shared with other calls. `constraint` is the constraint's representation, "" for none. `continuations` and `scores` belong to
    scoring calls, `probabilities` and `unexplored` to selections. `error` is why the call failed, "" if it did not.
    """

    label: str
    variable: str
    kind: CallKind
    source: str
    before: Rope
    sampling: SamplingParams
    constraint: str
    started_s: float
    seconds: float
    samples: tuple[Sample, ...] = ()
    probabilities: Mapping[str, float] = field(default_factory=dict)
    unexplored: float = 0.0
    continuations: tuple[tuple[int, ...], ...] = ()
    scores: tuple[Score, ...] = ()
    error: str = ""

    @property
    def prompt(self) -> tuple[int, ...]:
        """The tokens of the prompt."""
        return self.before.flat()

    @property
    def cached_tokens(self) -> int:
        """Prompt tokens that came from the cache."""
        usages = [sample.usage for sample in self.samples] + [score.usage for score in self.scores]
        return min((usage.cached_tokens for usage in usages), default=0)


@dataclass(slots=True, kw_only=True)
class Trace:
    """What a run did. `arguments` are those of the body: positional ones, and those by name."""

    program: str
    seed: int
    memo: Memo
    arguments: tuple[tuple[object, ...], Mapping[str, object]] = ((), {})
    calls: list[TracedCall] = field(default_factory=list)
    _began: float = field(default_factory=time.perf_counter)

    @property
    def model(self) -> str:
        """The model that ran."""
        return self.memo.description.model

    def now(self) -> float:
        """Seconds since the run began."""
        return time.perf_counter() - self._began

    def add(self, call: TracedCall) -> None:
        """A call has ended."""
        self.calls.append(call)

    def ordered(self) -> list[TracedCall]:
        """The calls in the order in which they started."""
        return sorted(self.calls, key=lambda call: call.started_s)


def traced(
    kind: CallKind, call: Call, *, variable: str, source: Source, before: Rope, started_s: float, now_s: float
) -> TracedCall:
    """A record of a call that has no outcome yet."""
    return TracedCall(
        label=call.label,
        variable=variable,
        kind=kind,
        source=str(source),
        before=before,
        sampling=call.sampling,
        constraint="" if call.constraint is None else repr(call.constraint),
        started_s=started_s,
        seconds=now_s - started_s,
    )


def failed(record: TracedCall, error: BaseException) -> TracedCall:
    """The record of a call that failed."""
    return replace(record, error=f"{type(error).__name__}: {error}")


def scored(record: TracedCall, continuations: Sequence[Sequence[int]], scores: Sequence[Score]) -> TracedCall:
    """The record of a scoring call."""
    return replace(record, continuations=tuple(map(tuple, continuations)), scores=tuple(scores))
