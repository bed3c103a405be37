"""Measuring what forward passes cost here, for plans."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from sgrt.engine.engine import Engine
from sgrt_frontend.call import Call, SamplingParams
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.planning.cost import CostModel

_REPEATS = 3
_RATES = (
    "pass_s",
    "prompt_token_s",
    "output_token_s",
    "prompt_context_s",
    "output_context_s",
    "context_read_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`count` calls side by side that draw `drawn` tokens each.

    The first `cached` tokens of their prompts were computed before, and are the same for all calls if they are
    `shared`; the `added` ones behind them are each call's own. A call that adds one token only decodes.
    """

    cached: int = 0
    added: int = 1
    drawn: int = 1
    count: int = 1
    shared: bool = False

    @property
    def prompt(self) -> int:
        """Length of each prompt."""
        return self.cached + self.added


# Prompts alone, one sequence alone, several, and several over a common prefix, near and far into their contexts: together
# they tell the rates of a cost model apart. What is cached for one load serves those behind it.
_LOADS = (
    Load(added=16),
    Load(added=128),
    Load(added=480),
    Load(added=1500),
    Load(cached=2500, drawn=16, shared=True),
    Load(cached=1000, drawn=16, shared=True),
    Load(cached=64, drawn=24, shared=True),
    Load(cached=1000, drawn=8, count=32, shared=True),
    Load(cached=1000, drawn=12, count=8, shared=True),
    Load(cached=1000, added=48, count=8, shared=True),
    Load(cached=1000, drawn=12, count=4),
    Load(cached=500, drawn=12, count=8),
    Load(cached=32, drawn=8, count=40),
    Load(cached=32, drawn=12, count=12),
    Load(cached=32, drawn=16, count=4),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a load came to, in the terms of a cost model."""

    passes: int
    prompt_tokens: int = 0
    output_tokens: int = 0
    prompt_context: int = 0
    output_context: int = 0
    context_read: int = 0
    seconds: float

    @property
    def counts(self) -> tuple[int, ...]:
        """What the rates are for, in the order of a cost model's fields."""
        return (
            *(self.passes, self.prompt_tokens, self.output_tokens),
            *(self.prompt_context, self.output_context, self.context_read),
        )


def measure_cost(engine: Engine) -> CostModel:
    """The cost model of an engine that does nothing else meanwhile; takes about ten seconds on two cores.

    Loads that do not fit the engine's context or pool are left out.
    """
    prompts = _Prompts(engine)
    with LoopThread() as loop:

        def observed(load: Load) -> Observation:
            return _observed(engine, loop, load, prompts.calls(load))

        observed(Load(added=16, drawn=4))  # the first passes of a process pay for more than themselves
        found = [
            min((observed(load) for _ in range(_REPEATS)), key=lambda made: made.seconds)
            for load in _LOADS
            if _fits(engine, load)
        ]
    return fitted(found)


class _Prompts:
    """Random texts: some that all loads begin with, and new ones."""

    def __init__(self, engine: Engine) -> None:
        self._words = engine.encode(
            " the quick brown fox jumps over the lazy dog and runs into the wide green forest"
        )
        self._salt = uuid.uuid4().hex
        self._new = random.Random(self._salt)

    def calls(self, load: Load) -> list[Call]:
        """The calls of a load, whose added tokens are new."""
        return [self._call(load, 0 if load.shared else number) for number in range(load.count)]

    def _call(self, load: Load, text: int) -> Call:
        known = random.Random(f"{self._salt} {text}")
        return Call(
            prompt=(
                *known.choices(self._words, k=load.cached),
                *self._new.choices(self._words, k=load.added),
            ),
            sampling=SamplingParams(max_tokens=load.drawn, ignore_eos=True),
            cache_salt=self._salt,
        )


def _fits(engine: Engine, load: Load) -> bool:
    limits = engine.parts.limits
    tokens = load.prompt + load.drawn
    common = load.cached // limits.page_tokens if load.shared else 0
    own = -(-tokens // limits.page_tokens) - common
    return (
        tokens <= limits.request_tokens
        and common + own * load.count < limits.num_pages
        and load.count <= limits.max_running
        and (load.cached == 0 or engine.config.prefix_caching)
    )


def _observed(engine: Engine, loop: LoopThread, load: Load, calls: Sequence[Call]) -> Observation:
    """Run the calls of a load; what they shall find in the cache first."""
    if load.cached:
        begun = calls[:1] if load.shared else calls
        loop.call(_run(engine, [_beginning(call, load.cached) for call in begun]))
    before = engine.counters.steps
    started = time.perf_counter()
    loop.call(_run(engine, calls))
    seconds = time.perf_counter() - started
    return counted(
        load,
        passes=engine.counters.steps - before,
        step_tokens=engine.parts.limits.step_tokens,
        seconds=seconds,
    )


def _beginning(call: Call, num_tokens: int) -> Call:
    return replace(call, prompt=call.prompt[:num_tokens], sampling=replace(call.sampling, max_tokens=1))


async def _run(engine: Engine, calls: Iterable[Call]) -> None:
    """As a program does: every token comes through an event loop."""

    async def one(call: Call) -> None:
        async for _ in engine.generate(call):
            pass

    await asyncio.gather(*map(one, calls))


def counted(load: Load, *, passes: int, step_tokens: int, seconds: float) -> Observation:
    """What the passes of a load compute, attend to and read; a prompt is computed in chunks of `step_tokens`."""
    decoded = load.drawn - 1 + (load.added == 1)  # tokens that each call computes one by one
    first = load.prompt + (load.added > 1)  # what the first of them attends to, itself included
    attended = decoded * first + decoded * (decoded - 1) // 2
    common = decoded * load.cached if load.shared else 0
    made = Observation(
        passes=passes,
        output_tokens=load.count * decoded,
        output_context=load.count * attended,
        context_read=common + load.count * (attended - common),
        seconds=seconds,
    )
    if load.added == 1:
        return made
    ends = [min(load.added, (place + 1) * step_tokens) for place in range(-(-load.added // step_tokens))]
    return replace(
        made,
        prompt_tokens=load.count * load.added,
        prompt_context=load.count * (load.added * load.cached + load.added * (load.added + 1) // 2),
        context_read=made.context_read + load.count * sum(load.cached + end for end in ends),
    )


def fitted(found: Sequence[Observation]) -> CostModel:
    """Least squares of the relative error, with no rate below 0.

    The best of all such rates is the plain solution for the columns in which it is not 0, so each choice of columns is solved.
    """
    counts = np.array([made.counts for made in found], float)
    relative = counts / np.array([made.seconds for made in found])[:, None]
    scale = np.maximum(relative.max(axis=0), np.finfo(float).tiny)
    columns, ones = relative / scale, np.ones(len(found))
    best, least = np.zeros(len(scale)), float(len(found))
    for size in range(1, len(scale) + 1):
        for used in map(list, combinations(range(len(scale)), size)):
            rates = np.linalg.lstsq(columns[:, used], ones, rcond=None)[0]
            error = float(np.square(columns[:, used] @ rates - ones).sum())
            if error < least and (rates >= 0).all():
                best, least = np.zeros(len(scale)), error
                best[used] = rates
    return CostModel(**dict(zip(_RATES, (best / scale).tolist(), strict=True)))
