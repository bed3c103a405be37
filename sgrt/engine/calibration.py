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

_REPEATS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """Calls side by side. With `shares` they are outputs of one prompt."""

    prompt: int
    output: int
    count: int = 1
    shares: bool = False


# Together they tell the rates of a cost model apart.
_LOADS = (
    _Load(prompt=16, output=1),
    _Load(prompt=128, output=1),
    _Load(prompt=480, output=1),
    _Load(prompt=1800, output=1),
    _Load(prompt=16, output=24),
    _Load(prompt=16, output=24, count=4),
    _Load(prompt=16, output=24, count=12),
    _Load(prompt=480, output=24, count=4),
    _Load(prompt=1800, output=24),
    _Load(prompt=1000, output=24, count=4),
    _Load(prompt=480, output=24, count=12, shares=True),
    _Load(prompt=1000, output=24, count=12, shares=True),
    _Load(prompt=16, output=24, count=28),
    _Load(prompt=128, output=24, count=32, shares=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a load came to, in the terms of a cost model."""

    passes: int
    prompt_tokens: int
    output_tokens: int
    prompt_context: int
    output_context: int
    context_read: int
    seconds: float

    @property
    def counts(self) -> tuple[int, ...]:
        return (
            *(self.passes, self.prompt_tokens, self.output_tokens),
            *(self.prompt_context, self.output_context, self.context_read),
        )


def measure_cost(engine: Engine) -> CostModel:
    """The cost model of an engine that does nothing else meanwhile; takes some seconds.

    Loads that do not fit the engine's context or pool are left out.
    """
    with LoopThread() as loop:
        warm_up = _Load(prompt=16, output=2)
        _observed(engine, loop, warm_up, place=0)  # the first pass of a process pays for more than itself
        found = [
            min(
                (_observed(engine, loop, load, place=repeat) for repeat in range(_REPEATS)),
                key=lambda made: made.seconds,
            )
            for load in _LOADS
            if _fits(engine, load)
        ]
    return fitted(found)


def _fits(engine: Engine, load: _Load) -> bool:
    limits = engine.parts.limits
    pages = -(-(load.prompt + load.output) // limits.page_tokens)
    return (
        load.prompt + load.output <= limits.request_tokens
        and pages * load.count <= limits.num_pages
        and load.count <= limits.max_running
    )


def _calls(engine: Engine, load: _Load, *, place: int) -> list[Call]:
    """Calls whose prompts are in no cache."""
    words = engine.encode(" the quick brown fox jumps over the lazy dog and runs into the wide green forest")
    prompts = 1 if load.shares else load.count
    return [
        Call(
            prompt=tuple(words[(index * 7 + place + number) % len(words)] for index in range(load.prompt)),
            sampling=SamplingParams(
                max_tokens=load.output,
                ignore_eos=True,
                temperature=1.0,
                seed=number,
                n=load.count // prompts,
            ),
            cache_salt=uuid.uuid4().hex,
        )
        for number in range(prompts)
    ]


async def _run(engine: Engine, calls: Sequence[Call]) -> None:
    """As a program does: every token comes through an event loop."""

    async def one(call: Call) -> None:
        async for _ in engine.generate(call):
            pass

    await asyncio.gather(*map(one, calls))


def _observed(engine: Engine, loop: LoopThread, load: _Load, *, place: int) -> Observation:
    """Run a load. The last token of an output is not computed."""
    calls = _calls(engine, load, place=place)
    before = engine.counters.steps
    started = time.perf_counter()
    loop.call(_run(engine, calls))
    seconds = time.perf_counter() - started
    prompt, drawn = load.prompt, load.output - 1
    prompts = len(calls)
    step_tokens = engine.parts.limits.step_tokens
    chunks = [min(prompt, (place + 1) * step_tokens) for place in range(-(-prompt // step_tokens))]
    own = drawn * load.count * (load.output // 2)
    return Observation(
        passes=engine.counters.steps - before,
        prompt_tokens=prompts * prompt,
        output_tokens=drawn * load.count,
        prompt_context=prompts * prompt * (prompt + 1) // 2,
        output_context=drawn * load.count * prompt + own,
        context_read=prompts * (sum(chunks) + drawn * prompt) + own,
        seconds=seconds,
    )


def fitted(found: Sequence[Observation]) -> CostModel:
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
        context_read_s=float(rates[5]),
    )
