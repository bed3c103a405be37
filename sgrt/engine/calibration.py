"""Measuring what forward passes cost here, for plans."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sgrt.engine.engine import Engine
from sgrt_frontend.call import Call, SamplingParams
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.planning.cost import CostModel

# Prompt tokens, output tokens, calls side by side with prompts of their own. Together they tell the rates of a cost
# model apart.
_LOADS = (
    (16, 1, 1),
    (128, 1, 1),
    (480, 1, 1),
    (1800, 1, 1),
    (16, 24, 1),
    (16, 24, 4),
    (16, 24, 12),
    (480, 24, 4),
    (1800, 24, 1),
    (1000, 24, 4),
)
_REPEATS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observation:
    """What a load came to, in the terms of a cost model."""

    passes: int
    prompt_tokens: int
    output_tokens: int
    prompt_context: int
    output_context: int
    seconds: float

    @property
    def counts(self) -> tuple[int, ...]:
        return self.passes, self.prompt_tokens, self.output_tokens, self.prompt_context, self.output_context


def measure_cost(engine: Engine) -> CostModel:
    """The cost model of an engine that does nothing else meanwhile; takes some seconds.

    Loads that do not fit the engine's context or pool are left out.
    """
    with LoopThread() as loop:
        _observed(engine, loop, 16, 2, 1, place=0)  # the first pass of a process pays for more than itself
        found = [
            min(
                (_observed(engine, loop, *load, place=repeat) for repeat in range(_REPEATS)),
                key=lambda made: made.seconds,
            )
            for load in _LOADS
            if _fits(engine, *load)
        ]
    return _fitted(found)


def _fits(engine: Engine, prompt: int, output: int, count: int) -> bool:
    limits = engine.parts.limits
    pages = -(-(prompt + output) // limits.page_tokens)
    return (
        prompt + output <= limits.request_tokens
        and pages * count <= limits.num_pages
        and count <= limits.max_running
    )


def _calls(engine: Engine, prompt: int, output: int, count: int, *, place: int) -> list[Call]:
    """Calls whose prompts are in no cache and share nothing."""
    words = engine.encode(" the quick brown fox jumps over the lazy dog and runs into the wide green forest")
    return [
        Call(
            prompt=tuple(words[(index * 7 + place + number) % len(words)] for index in range(prompt)),
            sampling=SamplingParams(max_tokens=output, ignore_eos=True, temperature=1.0, seed=number),
            cache_salt=uuid.uuid4().hex,
        )
        for number in range(count)
    ]


async def _run(engine: Engine, calls: Sequence[Call]) -> None:
    """As a program does: every token comes through an event loop."""

    async def one(call: Call) -> None:
        async for _ in engine.generate(call):
            pass

    await asyncio.gather(*map(one, calls))


def _observed(
    engine: Engine, loop: LoopThread, prompt: int, output: int, count: int, *, place: int
) -> _Observation:
    """Run a load. The last token of an output is not computed."""
    calls = _calls(engine, prompt, output, count, place=place)
    before = engine.counters.steps
    started = time.perf_counter()
    loop.call(_run(engine, calls))
    seconds = time.perf_counter() - started
    decoded = count * (output - 1)
    return _Observation(
        passes=engine.counters.steps - before,
        prompt_tokens=count * prompt,
        output_tokens=decoded,
        prompt_context=count * prompt * (prompt + 1) // 2,
        output_context=decoded * (prompt + output // 2),
        seconds=seconds,
    )


def _fitted(found: Sequence[_Observation]) -> CostModel:
    """Least squares of the relative error, with no rate below 0: a rate that would be is left out."""
    counts = np.array([made.counts for made in found], float)
    seconds = np.array([made.seconds for made in found])
    relative = counts / seconds[:, None]
    used = list(range(counts.shape[1]))
    rates = np.zeros(counts.shape[1])
    while used:
        scale = relative[:, used].max(axis=0)
        solved = np.linalg.lstsq(relative[:, used] / scale, np.ones(len(found)), rcond=None)[0] / scale
        if (solved >= 0).all():
            rates[used] = solved
            break
        del used[int(np.argmin(solved * scale))]
    return CostModel(
        pass_s=float(rates[0]),
        prompt_token_s=float(rates[1]),
        output_token_s=float(rates[2]),
        prompt_context_s=float(rates[3]),
        output_context_s=float(rates[4]),
    )
