"""The engine runs batches by their plan: what the plan says about tokens and pages is what happens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest
from scripted_engine import scripted_engine, tokenizer

import sgrt

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
CONTEXT = 16_384
A = tokenizer().encode("a")[0]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import programs  # type: ignore[import-not-found]  # noqa: PLC0415 - lies beside the package

    found: ModuleType = programs
    return found


def rambling(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    """Letters without end, others after every prompt."""
    return {A + hash((len(prompt), *prompt[-16:], *output[-1:])) % 26: 30.0}


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


NAMES = (
    "mmlu hellaswag react generative_agents tree_of_thought_deep tree_of_thought_wide skeleton branch_solve_merge "
    "multi_turn_short multi_turn_long rag in_batch"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_a_batch_computes_little_more_than_the_optimum_in_the_pages_of_its_plan(
    name: str, programs: ModuleType, loop: asyncio.AbstractEventLoop
) -> None:
    build = next(build for build in programs.WORKLOADS if build.__name__ == name)
    workload = build(programs.Scale(items=0.1, outputs=0.15))
    options = sgrt.PlanOptions(concurrency=workload.concurrency)
    with scripted_engine(rambling, num_pages=1, context_tokens=CONTEXT) as engine:
        plan = workload.program.on(engine).plan_batch(workload.items, options)
    pool = -(-plan.peak_pages.high * 6 // 5)
    lockstep = programs.Lockstep(loop, sgrt.CostModel())
    with scripted_engine(
        rambling,
        num_pages=pool,
        context_tokens=CONTEXT,
        settings={"checks_integrity": False},
        clock=lockstep.clock,
    ) as engine:
        lockstep.follow(engine)
        batch = workload.program.on(engine).with_options(seed=7)
        states = loop.run_until_complete(batch.arun_batch(workload.items, concurrency=workload.concurrency))
        counters = engine.counters
    traces = [state.trace for state in states]
    prompt_tokens = sgrt.total_usage(states).prompt_tokens
    excess = counters.computed_prompt_tokens - programs.unshared_tokens(traces)
    planned = plan.with_outputs(programs.output_lengths(traces))
    assert 0 <= excess <= 0.02 * prompt_tokens
    assert abs(counters.peak_pages_needed - planned.peak_pages) <= max(2, 0.05 * planned.peak_pages)
    assert counters.preemptions == 0
