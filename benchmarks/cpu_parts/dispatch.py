"""What a step of one sequence costs beside the kernels: planning, dispatch, drawing, committing."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from cpu_parts.prompts import Prompts
from sgrt.config import EngineConfig
from sgrt.engine.engine import Engine
from sgrt.engine.native_runner import NativeRunner
from sgrt.engine.parts import load_parts
from sgrt_frontend.call import Call, SamplingParams

_OUTPUT_TOKENS = 257


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Medians over some calls, per step."""

    step_ms: float
    kernels_ms: float

    @property
    def share_beside(self) -> float:
        """The part of a step that is not the kernels."""
        return 1.0 - self.kernels_ms / self.step_ms


def measure(model: str, prompts: Prompts, *, threads: int, calls: int = 7) -> StepCost:
    """One sequence with a cached prompt at a time, greedily; whole calls, from the caller's thread and back."""
    config = EngineConfig(model=model, threads=threads)
    parts = load_parts(config)
    assert isinstance(parts.runner, NativeRunner), "the model runs on the CPU kernels"
    sampling = SamplingParams(max_tokens=_OUTPUT_TOKENS, ignore_eos=True)
    steps: list[float] = []
    kernels: list[float] = []
    with Engine.from_parts(parts, config) as engine:
        for place in range(calls + 1):
            call = Call(prompt=tuple(prompts.short(1, 70 + place)[0]), sampling=sampling)
            engine.complete(Call(prompt=call.prompt, sampling=SamplingParams(max_tokens=1)))
            started, in_kernels = time.perf_counter(), parts.runner.kernel_s
            engine.complete(call)
            steps.append((time.perf_counter() - started) / _OUTPUT_TOKENS)
            kernels.append((parts.runner.kernel_s - in_kernels) / _OUTPUT_TOKENS)
    # The first call warms up.
    return StepCost(
        step_ms=statistics.median(steps[1:]) * 1e3, kernels_ms=statistics.median(kernels[1:]) * 1e3
    )
