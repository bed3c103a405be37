"""Agent programs on the default model: calls, cache hits reached and possible, forward passes, speed, and the plan.

    python benchmarks/programs.py --items 0.1 --outputs 0.25
    python benchmarks/programs.py --only "ReAct replay" "LLM judge"

`--items 1 --outputs 1` are the full workloads, which take hours on a laptop.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from program_workloads import agents, chats, shots, trees
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run of a workload. Hits are shares of prompt tokens."""

    calls: int
    prompt_tokens: int
    output_tokens: int
    best_hit: float
    hit: float
    forward_passes: int
    forward_tokens: int
    accepted_drafts: int
    seconds: float


def measure(workload: Workload, engine: sgrt.Engine) -> Measurement:
    """Run a workload on an engine with an empty cache."""
    engine.flush_cache_blocking()
    counters = engine.counters
    before = (counters.steps, counters.forward_tokens, counters.accepted_draft_tokens)
    started = time.perf_counter()
    states = (
        workload.program.on(engine)
        .with_options(seed=7)
        .run_batch(workload.items, concurrency=workload.concurrency)
    )
    seconds = time.perf_counter() - started
    usage = sgrt.total_usage(states)
    traces = [state.trace for state in states]
    return Measurement(
        calls=sum(len(trace.calls) for trace in traces),
        prompt_tokens=usage.prompt_tokens,
        output_tokens=usage.output_tokens,
        best_hit=best_hit(traces),
        hit=usage.cached_tokens / max(1, usage.prompt_tokens),
        forward_passes=counters.steps - before[0],
        forward_tokens=counters.forward_tokens - before[1],
        accepted_drafts=counters.accepted_draft_tokens - before[2],
        seconds=seconds,
    )


def best_hit(traces: Iterable[Trace]) -> float:
    """What an unlimited cache would reach: 1 - unique tokens / prompt tokens, generated tokens reused too.

    The last token of a prompt is always computed, and the last one of an output has no keys and values.
    """
    tree = PlanTree(len)
    total = shared = 0
    for trace in traces:
        for call in trace.ordered():
            prompt = call.prompt
            total += len(prompt)
            shared += min(tree.shared(prompt), len(prompt) - 1)
            tree.insert(prompt)
            if call.kind is CallKind.GENERATE:
                for sample in call.samples:
                    tree.insert(prompt + sample.token_ids[:-1])
    return shared / max(1, total)


def row(workload: Workload, cached: Measurement, uncached: Measurement | None, plan: sgrt.ProgramPlan) -> str:
    """A line of the table."""
    low, high = plan.best_hit
    without = f"{uncached.seconds:8.1f}" if uncached is not None else f"{'-':>8}"
    return (
        f"{workload.name:22} {cached.calls:5} {plan.calls!s:>9} {cached.prompt_tokens:8} {cached.output_tokens:7} "
        f"{cached.best_hit:6.3f} {cached.hit:6.3f} {cached.hit / cached.best_hit if cached.best_hit else 1:6.3f} "
        f"{low:5.3f}-{high:5.3f} {cached.forward_passes:6} {cached.forward_tokens:8} {cached.accepted_drafts:6} "
        f"{cached.output_tokens / cached.seconds:7.1f} {cached.seconds:8.1f} {without}"
    )


HEADER = (
    f"{'workload':22} {'calls':>5} {'planned':>9} {'prompt':>8} {'output':>7} {'best':>6} {'hit':>6} {'ratio':>6} "
    f"{'plan best':>11} {'passes':>6} {'computed':>8} {'drafts':>6} {'tok/s':>7} {'wall s':>8} {'no cache':>8}"
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
    parser.add_argument("--no-cache", action="store_true", help="run everything without the cache as well")
    arguments = parser.parse_args()
    scale = Scale(items=arguments.items, outputs=arguments.outputs)
    workloads = [build(scale) for build in WORKLOADS]
    chosen = [w for w in workloads if not arguments.only or w.name in arguments.only]
    uncached: dict[str, Measurement] = {}
    if arguments.no_cache:
        with sgrt.Engine(arguments.model, prefix_caching=False) as engine:
            for workload in track(chosen, "without the cache", console=Console(stderr=True)):
                uncached[workload.name] = measure(workload, engine)
    print(HEADER)
    with sgrt.Engine(arguments.model) as engine:
        for workload in chosen:
            measured = measure(workload, engine)
            print(row(workload, measured, uncached.get(workload.name), plan_of(workload, engine)), flush=True)


def plan_of(workload: Workload, engine: sgrt.Engine) -> sgrt.ProgramPlan:
    """The plan of all items."""
    return workload.program.on(engine).plan_batch(workload.items)


if __name__ == "__main__":
    main()
