"""Plans of the benchmark's workloads equal an instrumented run where they are static, and bracket it where not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import sgrt
from sgrt_frontend.call import Call
from sgrt_frontend.planning.tree import PlanTree
from sgrt_frontend.planning.units import Bounds
from sgrt_frontend.scripted import Answer, ScriptedBackend
from sgrt_frontend.trace import CallKind, Trace
from sgrt_grammars.constraint import Regex

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RECORDS = (
    '{"name": "A", "house": "Slytherin", "blood status": "Pure-blood", "occupation": "student", '
    '"wand": {"wood": "b", "core": "c", "length": 9.5}, "alive": "Alive", "patronus": "d", "bogart": "e"}',
    '{"name": "A", "country": "B", "latitude": 9.25, "population": 12, "top 3 landmarks": ["a", "b", "c"]}',
)


class Steady(ScriptedBackend):
    """Answers as long as asked for when the end token is ignored, and shorter ones otherwise."""

    def _next_answer(self, call: Call) -> Answer:
        if isinstance(call.constraint, Regex):
            return Answer(text=RECORDS["house" not in call.constraint.pattern])
        maximum = call.sampling.max_tokens or 8
        count = maximum if call.sampling.ignore_eos else (maximum + 1) // 2
        return Answer(text=" a" * count)


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import programs  # type: ignore[import-not-found]  # noqa: PLC0415 - lies beside the package

    found: ModuleType = programs
    return found


NAMES = (
    "mmlu hellaswag react generative_agents tree_of_thought_deep tree_of_thought_wide skeleton "
    "branch_solve_merge json_character json_city multi_turn_short multi_turn_long rag in_batch"
)


@pytest.mark.parametrize("name", NAMES.split())
def test_planned_calls_and_tokens_hold(name: str, modules: ModuleType) -> None:
    build: Callable[..., object] = next(build for build in modules.WORKLOADS if build.__name__ == name)
    workload = build(modules.Scale(items=0.06, outputs=0.1))
    program, items = workload.program, workload.items  # type: ignore[attr-defined]  # a Workload
    planned: sgrt.ProgramPlan = program.on(Steady()).plan_batch(items)
    backend = Steady()
    states = program.on(backend).run_batch(items, concurrency=1)
    traces = [state.trace for state in states]

    assert planned.is_static and planned.dynamic_from is None
    count = sum(len(trace.calls) for trace in traces)
    assert planned.calls == Bounds(count, count)
    usage = sgrt.total_usage(states)
    assert usage.prompt_tokens in planned.prompt_tokens
    assert usage.output_tokens in planned.output_tokens
    assert best_shared(traces) in Bounds(
        planned.shared_tokens.low - slack(planned), planned.shared_tokens.high + slack(planned)
    )
    if planned.prompt_tokens.is_exact:
        assert planned.shared_tokens == Bounds(usage.cached_tokens, usage.cached_tokens)


def slack(planned: sgrt.ProgramPlan) -> int:
    """Outputs that happen to begin alike are shared in a run and not in the plan."""
    return 0 if planned.output_tokens.is_exact else planned.output_tokens.high


def best_shared(traces: list[Trace]) -> int:
    tree = PlanTree(len)
    shared = 0
    for trace in traces:
        for call in trace.ordered():
            shared += min(tree.shared(call.prompt), len(call.prompt) - 1)
            tree.insert(call.prompt)
            if call.kind is CallKind.GENERATE:
                tree.insert(call.prompt + call.samples[0].token_ids[:-1])
    return shared


def test_every_workload_is_tested(modules: ModuleType) -> None:
    assert [build.__name__ for build in modules.WORKLOADS] == NAMES.split()
    assert str(BENCHMARKS) in sys.path
