"""Agent programs: calls, cache hits reached and possible, forward passes, pages, speed, and what the plan said.

    python benchmarks/programs.py --items 0.1 --outputs 0.25
    python benchmarks/programs.py --only "ReAct replay" "LLM judge" --without cache
    python benchmarks/programs.py --script --items 1 --outputs 0.25

Each runs in a pool of 1.2 times the pages that its plan needs at one time, and again without the prefix cache (in a pool
that holds all that runs), without the plan, and without drafts of forced text. `--script` puts a script in place of the
model, in lockstep with the programs and by the plan's clock: tokens, scheduling, pages and masks are real, seconds are not, and
the full workloads take minutes. With the default model `--items 1
--outputs 1` takes hours on a laptop.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from program_workloads import agents, chats, shots, trees
from program_workloads.lockstep import Lockstep
from program_workloads.script_engine import script_engine
from program_workloads.workload import Build, Scale, Workload

import sgrt
from sgrt.config import EngineSettings
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.generate import kept_tokens
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.planning.tree import PlanTree
from sgrt_frontend.trace import CallKind, Trace

WORKLOADS: Sequence[Build] = (
    shots.mmlu,
    shots.hellaswag,
    agents.react,
    agents.generative_agents,
    trees.tree_of_thought_deep,
    trees.tree_of_thought_wide,
    agents.skeleton,
    agents.branch_solve_merge,
    chats.json_character,
    chats.json_city,
    chats.multi_turn_short,
    chats.multi_turn_long,
    shots.rag,
    shots.in_batch,
)
# Pages of the engine whose passes are timed for the plans, and that the plans' prompts are encoded by.
_TIMED_POOL = 256


class Part(Enum):
    """What a run can do without."""

    CACHE = "cache"
    PLAN = "plan"
    DRAFTS = "drafts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Without:
    """A run that does without a part: how long it took, its forward passes, and the prompt tokens it computed."""

    seconds: float
    passes: int
    computed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of a workload on an engine of its own. Hits are shares of prompt tokens.

    `computed` are the prompt tokens that forward passes computed, those computed again after a preemption or an
    eviction included; `optimum` is what a cache without limits would leave. `planned` is the plan's simulation for the
    output lengths that came out.
    """

    calls: int
    prompt_tokens: int
    output_tokens: int
    computed: int
    optimum: int
    passes: int
    accepted_drafts: int
    peak_pages: int
    pool_pages: int
    seconds: float
    planned_pages: int
    planned_seconds: float

    @property
    def excess(self) -> float:
        """Prompt tokens computed beyond the optimum, as a share of all."""
        return (self.computed - self.optimum) / max(1, self.prompt_tokens)

    @property
    def best_hit(self) -> float:
        """The share of prompt tokens that need not be computed."""
        return 1 - self.optimum / max(1, self.prompt_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """An engine, and the loop of the programs that it serves."""

    engine: sgrt.Engine
    loop: LoopThread

    def run(self, workload: Workload, *, planned: bool = True) -> tuple[list[sgrt.State[Any]], float]:
        """The states of all items, and how long they took."""
        program = workload.program.on(self.engine).with_options(seed=7, planned=planned)
        started = time.perf_counter()
        states = self.loop.call(program.arun_batch(workload.items, concurrency=workload.concurrency))
        return states, time.perf_counter() - started


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Engines for a model, or for a script in its place."""

    model: str
    is_script: bool

    @contextmanager
    def machine(self, num_pages: int, *, without: Part | None = None) -> Iterator[Machine]:
        """An engine with a pool of so many pages."""
        settings: EngineSettings = {
            "num_pages": num_pages,
            "prefix_caching": without is not Part.CACHE,
            "verbose": False,
        }
        if without is Part.DRAFTS:
            settings["max_draft_tokens"] = 0
        with LoopThread() as loop:
            if not self.is_script:
                with sgrt.Engine(self.model, **settings) as engine:
                    yield Machine(engine=engine, loop=loop)
                return
            lockstep = Lockstep(loop.call(_running_loop()), sgrt.CostModel())
            with script_engine(self.model, clock=lockstep.clock, **settings) as engine:
                lockstep.follow(engine)
                yield Machine(engine=engine, loop=loop)


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def plan_of(workload: Workload, engine: sgrt.Engine, cost: sgrt.CostModel) -> sgrt.ProgramPlan:
    """The plan of all items."""
    options = sgrt.PlanOptions(concurrency=workload.concurrency, cost=cost)
    return workload.program.on(engine).plan_batch(workload.items, options)


def measure(workload: Workload, machines: Machines, plan: sgrt.ProgramPlan) -> Measurement:
    """Run a workload in a pool of 1.2 times what its plan needs at most."""
    pool = -(-plan.peak_pages.high * 6 // 5)
    with machines.machine(pool) as machine:
        states, seconds = machine.run(workload)
        counters = machine.engine.counters
        traces = [state.trace for state in states]
        planned = plan.with_outputs(output_lengths(traces), kept_lengths(traces, machine.engine))
    usage = sgrt.total_usage(states)
    return Measurement(
        calls=sum(len(trace.calls) for trace in traces),
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        computed=counters.computed_prompt_tokens,
        optimum=unshared_tokens(traces),
        passes=counters.steps,
        accepted_drafts=counters.accepted_draft_tokens,
        peak_pages=counters.peak_pages_needed,
        pool_pages=pool,
        seconds=seconds,
        planned_pages=planned.peak_pages,
        planned_seconds=planned.seconds,
    )


def measure_without(part: Part, workload: Workload, machines: Machines, plan: sgrt.ProgramPlan) -> Without:
    """Run a workload without a part: in the same pool, but without a cache in one that holds all that runs."""
    pool = -(-plan.peak_pages.high * 6 // 5)
    if part is Part.CACHE:
        tokens = max(_TIMED_POOL, plan.long.prompt_tokens + plan.long.output_tokens)
        pool = min(tokens // 32 + plan.calls.high, 4096)
    with machines.machine(pool, without=part) as machine:
        _, seconds = machine.run(workload, planned=part is not Part.PLAN)
        counters = machine.engine.counters
    return Without(seconds=seconds, passes=counters.steps, computed=counters.computed_prompt_tokens)


def output_lengths(traces: Iterable[Trace]) -> dict[tuple[int, str], int]:
    """Tokens of every output, by item and call."""
    return {
        (item, call.label): len(call.samples[0].token_ids)
        for item, trace in enumerate(traces)
        for call in trace.calls
        if call.samples
    }


def kept_lengths(traces: Iterable[Trace], backend: sgrt.Backend) -> dict[tuple[int, str], int]:
    """Tokens of every output that its state went on with, by item and call."""
    encoder = Encoder(backend)
    return {
        (item, call.label): len(kept_tokens(call.samples[0], encoder))
        for item, trace in enumerate(traces)
        for call in trace.calls
        if call.samples and call.kind is CallKind.GENERATE
    }


def unshared_tokens(traces: Iterable[Trace]) -> int:
    """The prompt tokens that a cache without limits would leave to compute; generated tokens are reused too.

    The last token of a prompt is always computed, and the last one of an output has no keys and values.
    """
    tree = PlanTree()
    unshared = 0
    for trace in traces:
        for call in trace.ordered():
            prompt = call.prompt
            unshared += len(prompt) - min(tree.shared(prompt), len(prompt) - 1)
            tree.insert(prompt)
            if call.kind is CallKind.GENERATE:
                for sample in call.samples:
                    tree.insert(prompt + sample.token_ids[:-1])
    return unshared


HEADER = (
    f"{'workload':22} {'calls':>5} {'planned':>7} {'prompt':>7} {'output':>6} {'best hit':>8} {'hit':>6} {'excess':>7} "
    f"{'pages':>5} {'plan':>5} {'pool':>5} {'passes':>6} {'drafts':>6} {'tok/s':>7} {'wall s':>7} {'plan s':>7}"
)
HEADERS_WITHOUT = {
    Part.CACHE: f" | {'no cache: s':>11} {'passes':>6}",
    Part.PLAN: f" | {'no plan: s':>10} {'passes':>6} {'excess':>7}",
    Part.DRAFTS: f" | {'no drafts: s':>12} {'passes':>6}",
}


def row(workload: Workload, made: Measurement, plan: sgrt.ProgramPlan) -> str:
    """The columns of a run."""
    hit = 1 - made.computed / max(1, made.prompt_tokens)
    return (
        f"{workload.name:22} {made.calls:5} {plan.calls!s:>7} {made.prompt_tokens:7} {made.output_tokens:6} "
        f"{made.best_hit:8.3f} {hit:6.3f} {made.excess:7.2%} {made.peak_pages:5} {made.planned_pages:5} "
        f"{made.pool_pages:5} {made.passes:6} {made.accepted_drafts:6} {made.output_tokens / made.seconds:7.1f} "
        f"{made.seconds:7.1f} {made.planned_seconds:7.1f}"
    )


def row_without(part: Part, made: Without, whole: Measurement) -> str:
    """The columns of a run without a part."""
    if part is Part.PLAN:
        excess = (made.computed - whole.optimum) / max(1, whole.prompt_tokens)
        return f" | {made.seconds:10.1f} {made.passes:6} {excess:7.2%}"
    return f" | {made.seconds:{11 if part is Part.CACHE else 12}.1f} {made.passes:6}"


def main() -> None:
    """Run the workloads asked for and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=float, default=0.1, help="share of each workload's items")
    parser.add_argument("--outputs", type=float, default=0.25, help="share of the output lengths")
    parser.add_argument("--only", nargs="*", help="names of workloads")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--script", action="store_true", help="a script in place of the model")
    parser.add_argument(
        "--without",
        nargs="*",
        type=Part,
        default=list(Part),
        help="cache, plan, drafts: run once more without each of these (all of them by default)",
    )
    arguments = parser.parse_args()
    scale = Scale(items=arguments.items, outputs=arguments.outputs)
    workloads = [build(scale) for build in WORKLOADS]
    chosen = [w for w in workloads if not arguments.only or w.name in arguments.only]
    machines = Machines(model=arguments.model, is_script=arguments.script)
    with machines.machine(_TIMED_POOL) as machine:
        cost = sgrt.CostModel() if arguments.script else sgrt.measure_cost(machine.engine)
        plans = [plan_of(workload, machine.engine, cost) for workload in chosen]
    print(HEADER + "".join(HEADERS_WITHOUT[part] for part in arguments.without))
    for workload, plan in zip(chosen, plans, strict=True):
        made = measure(workload, machines, plan)
        print(row(workload, made, plan), end="", flush=True)
        for part in arguments.without:
            without = measure_without(part, workload, machines, plan)
            print(row_without(part, without, made), end="", flush=True)
        print()


if __name__ == "__main__":
    main()
