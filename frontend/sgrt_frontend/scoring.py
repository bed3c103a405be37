"""Running a `score`: log-probabilities of continuations, without changing the state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sgrt_frontend.call import Call
from sgrt_frontend.rope import Rope
from sgrt_frontend.run import Run
from sgrt_frontend.slot import Slot
from sgrt_frontend.trace import CallKind, TracedCall, failed, scored, traced


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What is scored after what."""

    prefix: Rope
    continuations: Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """One `score` on its way. `split` says what of the rope is prefix and what is scored."""

    run: Run
    slot: Slot
    label: str
    split: Callable[[Rope], Scored]

    async def extend(self, rope: Rope) -> Rope:
        """Score, set the variable; the rope stays as it is."""
        task = await self.run.encoder.beside_loop(self.split, rope)
        trace = self.run.trace
        started = trace.now()
        outlook = self.run.outlook
        call = Call(
            prompt=task.prefix.flat(),
            priority=self.run.options.priority,
            cache_salt=self.run.options.cache_salt,
            label=self.label,
            plan=None if outlook is None else outlook.call_plan(self.label, task.prefix),
        )

        def record() -> TracedCall:
            return traced(
                CallKind.SCORE,
                call,
                variable=self.slot.name,
                source=self.slot.source,
                before=task.prefix,
                started_s=started,
                now_s=trace.now(),
            )

        try:
            scores = await self.run.caller.score(call, task.continuations)
        except BaseException as error:
            trace.add(failed(record(), error))
            raise
        trace.add(scored(record(), task.continuations, scores))
        self.slot.succeed(scores, None)
        return rope
