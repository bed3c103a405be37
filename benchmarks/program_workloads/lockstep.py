"""A scripted engine and the programs that it serves in lockstep, so that a run has one outcome.

A script takes no time, so what arrives before which pass would be a matter of chance. Here everything on the programs'
loop settles before each pass, and requests arrive by a clock that passes move on by what they cost, as in a plan.
"""

from __future__ import annotations

import asyncio

from sgrt.engine.engine import Engine
from sgrt_frontend.planning.cost import CostModel

_TURNS = 60  # of a loop, until everything that was handed on has arrived


class Lockstep:
    """Lets the programs on `loop` settle before each step of the engine that it follows."""

    def __init__(self, loop: asyncio.AbstractEventLoop, cost: CostModel) -> None:
        self.now_s = 0.0
        self._loop = loop
        self._cost = cost

    def clock(self) -> float:
        """The time, for the engine."""
        return self.now_s

    def follow(self, engine: Engine) -> None:
        """Drive the steps of an engine that uses `clock`; before it has had any work."""
        core, commands = engine._loop._core, engine._loop._commands
        step = core.step

        def settled(now_s: float) -> bool:
            asyncio.run_coroutine_threadsafe(_settle(), self._loop).result()
            while not commands.empty():
                commands.get().run()
            prompts, outputs = core.stats.forward_tokens, core.stats.output_tokens
            is_done = step(now_s)
            outputs = core.stats.output_tokens - outputs
            prompts = max(0, core.stats.forward_tokens - prompts - outputs)
            self.now_s += self._cost.seconds(passes=1, prompt_tokens=prompts, output_tokens=outputs)
            return is_done

        core.step = settled  # type: ignore[method-assign]  # of this one engine


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
