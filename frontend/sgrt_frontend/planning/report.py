"""A plan as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from sgrt_frontend.planning.lint import lint
from sgrt_frontend.planning.plan import PlanPath, ProgramPlan
from sgrt_frontend.planning.simulation import SimulatedCall
from sgrt_frontend.planning.units import Bounds


def report(plan: ProgramPlan) -> str:
    """The calls of the first item's first path, the totals, and the advice."""
    lines = [f"{plan.program}: {_kind(plan)}", ""]
    if plan.items and plan.items[0]:
        lines += _table(plan, plan.items[0][0])
    lines += ["", *_totals(plan)]
    advices = lint(plan)
    if advices:
        lines += ["", "advice:", *(f"  {advice.source}: {advice.message}" for advice in advices)]
    return "\n".join(lines)


def _kind(plan: ProgramPlan) -> str:
    runs = len(plan.items)
    what = f"{runs} runs" if runs != 1 else "one run"
    paths = max((len(paths) for paths in plan.items), default=0)
    if plan.dynamic_from is not None:
        return f"{what}, dynamic from {plan.dynamic_from}"
    return f"{what}, static" if plan.is_static else f"{what}, {paths} paths"


def _table(plan: ProgramPlan, path: PlanPath) -> Iterator[str]:
    yield f"{'call':16} {'variable':14} {'kind':9} {'prompt':>12} {'shared':>12} {'output':>10}  source"
    for planned, traced in zip(path.calls, path.traced, strict=True):
        short, long = (plan.short.calls.get((0, planned.label)), plan.long.calls.get((0, planned.label)))
        prompt = _range(short, long, "prompt_tokens")
        shared = _range(short, long, "shared_tokens")
        output = _range(short, long, "output_tokens")
        source = traced.source.rsplit("/", 1)[-1]
        yield (
            f"{planned.label:16} {planned.variable:14} {planned.kind.value:9} {prompt:>12} {shared:>12} "
            f"{output:>10}  {source}"
        )


def _range(short: SimulatedCall | None, long: SimulatedCall | None, name: str) -> str:
    numbers = [getattr(call, name) for call in (short, long) if call is not None]
    return str(Bounds(min(numbers), max(numbers))) if numbers else "?"


def _totals(plan: ProgramPlan) -> Iterator[str]:
    low, high = plan.best_hit
    fast, slow = plan.seconds
    yield f"calls            {plan.calls}"
    yield f"prompt tokens    {plan.prompt_tokens} ({plan.shared_tokens} shared, {plan.new_tokens} new)"
    yield f"output tokens    {plan.output_tokens}"
    yield f"best cache hit   {low:.1%}" + ("" if low == high else f" to {high:.1%}")
    yield f"peak KV pages    {plan.peak_pages} of {plan.options.page_tokens} tokens"
    yield f"estimated time   {fast:.2f} to {slow:.2f} s"
    yield f"longest path     {' -> '.join(plan.longest_path)}"
