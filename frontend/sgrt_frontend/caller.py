"""The seam between a run and what answers its calls: a live backend, or a recorded trace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, repeat
from typing import Protocol

from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Call, Chunk, Finish, Origin, Score, StopReason, TokenInfo
from sgrt_frontend.choice_search import ScoreTokens
from sgrt_frontend.errors import BackendError, Cancelled, DeadlineExceeded, SgrtError
from sgrt_frontend.expression import Value
from sgrt_frontend.gen import Gen
from sgrt_frontend.select import Select
from sgrt_frontend.slot import Meta, Sample

OnChunk = Callable[[Chunk], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generated:
    """The outputs of a call and how long it took. A planned call gives `values` instead of text to parse."""

    samples: tuple[Sample, ...]
    seconds: float
    values: tuple[Value, ...] = ()


Decide = Callable[[Call, ScoreTokens], Awaitable[tuple[Generated, Meta]]]


class Caller(Protocol):
    """Answers the calls of a run."""

    async def generate(self, gen: Gen[Value], call: Call, on_chunk: OnChunk | None) -> Generated:
        """Run the call of `gen` to its end, telling `on_chunk` of every piece."""
        ...

    async def select(self, select: Select, call: Call, decide: Decide) -> tuple[Generated, Meta]:
        """Make a selection: `decide` weighs the choices, given something that scores."""
        ...

    async def score(self, call: Call, continuations: Sequence[Sequence[int]]) -> list[Score]:
        """Log-probabilities of continuations of the call's prompt."""
        ...


@dataclass(slots=True)
class _Output:
    text: list[str] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenInfo] = field(default_factory=list)
    origins: list[Origin] = field(default_factory=list)
    finish: Finish | None = None

    def take(self, chunk: Chunk) -> None:
        self.text.append(chunk.text)
        self.token_ids.extend(chunk.token_ids)
        self.logprobs.extend(chunk.logprobs)
        self.origins.extend(chunk.origins)
        self.finish = chunk.finish or self.finish

    def sample(self, index: int) -> Sample:
        """The output as it ended. What was broken off is no value, whatever text there is of it."""
        if self.finish is None:
            raise BackendError(f"the backend ended output {index} without saying why it stopped")
        if self.finish.reason in _BROKEN_OFF:
            raise _BROKEN_OFF[self.finish.reason](len(self.token_ids))
        return Sample(
            text="".join(self.text),
            token_ids=tuple(self.token_ids),
            stop_reason=self.finish.reason,
            stop=self.finish.stop,
            usage=self.finish.usage,
            logprobs=tuple(self.logprobs),
            origins=tuple(self.origins),
        )


def _cancelled(num_tokens: int) -> Cancelled:
    return Cancelled(
        f"the backend broke the call off after {num_tokens} tokens (it is closing)", by_backend=True
    )


def _overdue(num_tokens: int) -> DeadlineExceeded:
    return DeadlineExceeded(f"the call's deadline passed after {num_tokens} tokens")


_BROKEN_OFF: dict[StopReason, Callable[[int], SgrtError]] = {
    StopReason.CANCELLED: _cancelled,
    StopReason.DEADLINE: _overdue,
}


class LiveCaller:
    """Calls a backend. A cancelled or overdue call closes its stream, which frees its pages."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def generate(self, gen: Gen[Value], call: Call, on_chunk: OnChunk | None) -> Generated:
        """Run a call to its end.

        Raises:
            Cancelled: the backend broke an output off, since it is closing.
            DeadlineExceeded: the deadline passed before the end.
        """
        started = time.perf_counter()
        outputs = [_Output() for _ in range(call.sampling.n)]
        clock = asyncio.timeout(call.deadline_s)
        try:
            async with clock:
                await self._consume(call, outputs, on_chunk)
        except TimeoutError as error:
            if isinstance(error, DeadlineExceeded) or not clock.expired():
                raise
            raise DeadlineExceeded(f"the call took longer than its {call.deadline_s} s") from error
        samples = tuple(output.sample(index) for index, output in enumerate(outputs))
        return Generated(samples=samples, seconds=time.perf_counter() - started)

    async def _consume(self, call: Call, outputs: list[_Output], on_chunk: OnChunk | None) -> None:
        stream = self._backend.generate(call)
        try:
            async for chunk in stream:
                outputs[chunk.index].take(chunk)
                if on_chunk is not None:
                    on_chunk(chunk)
        finally:
            close = getattr(stream, "aclose", None)  # an AsyncIterator need not be a generator
            if close is not None:
                await close()

    async def select(self, select: Select, call: Call, decide: Decide) -> tuple[Generated, Meta]:
        """Weigh the choices by scoring on the backend."""
        started = time.perf_counter()
        first = call.score_terms
        later = first if first.plan is None else replace(first, plan=replace(first.plan, shares=()))
        # However many rounds it takes, it is one use of what the plan shares.
        terms = chain((first,), repeat(later))

        async def score(prefix: Sequence[int], continuations: Sequence[Sequence[int]]) -> list[Score]:
            return await self._backend.score(prefix, continuations, next(terms))

        generated, meta = await decide(call, score)
        seconds = time.perf_counter() - started
        return replace(generated, seconds=seconds), replace(meta, seconds=seconds)

    async def score(self, call: Call, continuations: Sequence[Sequence[int]]) -> list[Score]:
        """Log-probabilities of continuations."""
        return await self._backend.score(call.prompt, continuations, call.score_terms)
