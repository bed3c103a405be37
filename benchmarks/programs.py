"""Agent programs: calls, cache hits reached and possible, forward passes, pages, speed, and what the plan said.

    python benchmarks/programs.py --items 0.1 --outputs 0.25
    python benchmarks/programs.py --only "ReAct replay" "LLM judge" --no-cache
    python benchmarks/programs.py --script --items 1 --outputs 0.25

Each runs in a pool of 1.2 times the pages that its plan needs at one time. `--script` puts a script in place of the model:
tokens, scheduling, pages and masks are real, and the full workloads take a minute. With the default model `--items 1
--outputs 1` takes hours on a laptop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from program_workloads import agents, chats, shots, trees
from program_workloads.script_engine import script_engine
from program_workloads.workload import Build, Scale, Workload
from rich.console import Console
from rich.progress import track

import sgrt
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
# The pool of an engine that only plans; nothing is computed in it.
_SMALL_POOL = 64


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
class Machines:
    """Engines for a model, or for a script in its place."""

    model: str
    is_script: bool

    @contextmanager
    def engine(self, num_pages: int, *, prefix_caching: bool = True) -> Iterator[sgrt.Engine]:
        """An engine with a pool of so many pages."""
        if self.is_script:
            made = script_engine(self.model, num_pages=num_pages)
        else:
            made = sgrt.Engine(self.model, num_pages=num_pages, prefix_caching=prefix_caching)
        with made as engine:
            yield engine


def plan_of(workload: Workload, engine: sgrt.Engine, cost: sgrt.CostModel) -> sgrt.ProgramPlan:
    """The plan of all items."""
    options = sgrt.PlanOptions(concurrency=workload.concurrency, cost=cost)
    return workload.program.on(engine).plan_batch(workload.items, options)


def measure(workload: Workload, machines: Machines, plan: sgrt.ProgramPlan) -> Measurement:
    """Run a workload in a pool of 1.2 times what its plan needs at most."""
    pool = -(-plan.peak_pages.high * 6 // 5)
    with machines.engine(pool) as engine:
        started = time.perf_counter()
        states = (
            workload.program.on(engine)
            .with_options(seed=7)
            .run_batch(workload.items, concurrency=workload.concurrency)
        )
        seconds = time.perf_counter() - started
        counters = engine.counters
    usage = sgrt.total_usage(states)
    traces = [state.trace for state in states]
    planned = plan.with_outputs(output_lengths(traces))
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


def uncached_seconds(workload: Workload, machines: Machines, plan: sgrt.ProgramPlan) -> float:
    """How long the workload takes without a prefix cache, in a pool that holds all that runs."""
    pool = max(_SMALL_POOL, plan.long.prompt_tokens + plan.long.output_tokens) // 32 + plan.calls.high
    with machines.engine(min(pool, 4096), prefix_caching=False) as engine:
        started = time.perf_counter()
        workload.program.on(engine).with_options(seed=7).run_batch(
            workload.items, concurrency=workload.concurrency
        )
        return time.perf_counter() - started


def output_lengths(traces: Iterable[Trace]) -> dict[tuple[int, str], int]:
    """Tokens of every output, by item and call."""
    return {
        (item, call.label): len(call.samples[0].token_ids)
        for item, trace in enumerate(traces)
        for call in trace.calls
        if call.samples
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
    f"{'pages':>5} {'plan':>5} {'pool':>5} {'passes':>6} {'drafts':>6} {'tok/s':>7} {'wall s':>7} {'plan s':>7} {'no cache':>8}"
)


def row(workload: Workload, made: Measurement, plan: sgrt.ProgramPlan, uncached: float | None) -> str:
    """A line of the table."""
    without = f"{uncached:8.1f}" if uncached is not None else f"{'-':>8}"
    hit = 1 - made.computed / max(1, made.prompt_tokens)
    return (
        f"{workload.name:22} {made.calls:5} {plan.calls!s:>7} {made.prompt_tokens:7} {made.output_tokens:6} "
        f"{made.best_hit:8.3f} {hit:6.3f} {made.excess:7.2%} {made.peak_pages:5} {made.planned_pages:5} "
        f"{made.pool_pages:5} {made.passes:6} {made.accepted_drafts:6} {made.output_tokens / made.seconds:7.1f} "
        f"{made.seconds:7.1f} {made.planned_seconds:7.1f} {without}"
    )


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
    parser.add_argument("--no-cache", action="store_true", help="run everything without the cache as well")
    arguments = parser.parse_args()
    scale = Scale(items=arguments.items, outputs=arguments.outputs)
    workloads = [build(scale) for build in WORKLOADS]
    chosen = [w for w in workloads if not arguments.only or w.name in arguments.only]
    machines = Machines(model=arguments.model, is_script=arguments.script)
    with machines.engine(_SMALL_POOL) as engine:
        cost = sgrt.CostModel() if arguments.script else sgrt.measure_cost(engine)
        plans = [plan_of(workload, engine, cost) for workload in chosen]
    uncached: dict[str, float] = {}
    if arguments.no_cache:
        for workload, plan in track(
            list(zip(chosen, plans, strict=True)), "without the cache", console=Console(stderr=True)
        ):
            uncached[workload.name] = uncached_seconds(workload, machines, plan)
    print(HEADER)
    for workload, plan in zip(chosen, plans, strict=True):
        made = measure(workload, machines, plan)
        print(row(workload, made, plan, uncached.get(workload.name)), flush=True)


if __name__ == "__main__":
    main()
