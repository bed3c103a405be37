"""A single run of a static program: its body runs once, and its calls carry what is known of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from sgrt_frontend.call import Call, CallPlan
from sgrt_frontend.gen import gen
from sgrt_frontend.program import Program, function
from sgrt_frontend.scripted import ScriptedBackend
from sgrt_frontend.state import State

RUNS: list[str] = []


@function
def forked(s: State, topic: str) -> None:
    s += f"A long beginning about {topic} that all branches share.\n"
    forks = s.fork(3)
    forks += lambda index: f"Point {index}: " + gen("point", max_tokens=4)
    forks.join()
    s += " and ".join(s["point"]) + gen("end", max_tokens=4)


@function
async def gathered(s: State, topic: str) -> None:
    s += f"A long beginning about {topic} that all branches share.\n"

    async def point(branch: State, word: str) -> None:
        branch += word + ": " + gen("point", max_tokens=4)
        branch += f"{await branch.get('point')}!" + gen("again", max_tokens=4)

    await asyncio.gather(*[point(branch, word) for branch, word in zip(s.fork(3), "abc", strict=True)])


def streamed(program: Program[..., Any]) -> None:
    with program.stream("bees") as events:
        list(events)


def plans(calls: list[Call]) -> list[CallPlan]:
    return [call.plan for call in calls if call.plan is not None]


@pytest.mark.parametrize("program", [forked, gathered], ids=lambda program: program.name)
@pytest.mark.parametrize(
    "run",
    [
        lambda program: program.run("bees"),
        lambda program: asyncio.run(program.arun("bees")),
        streamed,
    ],
    ids=["run", "arun", "stream"],
)
def test_the_calls_of_a_run_with_branches_know_of_each_other(
    program: Program[..., Any], run: Callable[[Program[..., Any]], object]
) -> None:
    backend = ScriptedBackend(lambda prompt: "a b")
    run(program.on(backend))
    branches = backend.calls[:3]
    for plan, call in zip(plans(branches), branches, strict=True):
        share = plan.shares[0]
        assert share.uses == len(backend.calls), "all calls begin with it"
        assert share.num_tokens is not None and 8 < share.num_tokens < len(call.prompt)
        assert plan.path_s > 0
    assert len({plan.shares[0] for plan in plans(branches)}) == 1
    later = plans(backend.calls)[3:]
    assert later and all(plan.path_s < plans(branches)[0].path_s for plan in later), "branches are waited for"


def test_a_run_that_wants_no_plan_has_none() -> None:
    backend = ScriptedBackend(lambda prompt: "a b")
    forked.on(backend).with_options(planned=False).run("bees")
    forked.on(backend).with_options(planned=False).run_batch([("bees",), ("ants",)])
    assert len(backend.calls) == 12 and not plans(backend.calls)


def test_a_body_with_effects_or_looks_runs_once_and_as_it_always_does() -> None:
    @function
    def noted(s: State) -> None:
        RUNS.append("noted")
        s += "Say: "
        forks = s.fork(2)
        forks += gen("x", max_tokens=4)
        if len(forks.values("x")[0]) > 1:
            s += "more" + gen("y", max_tokens=4)

    backend = ScriptedBackend(lambda prompt: "a b")
    noted.on(backend).run()
    asyncio.run(noted.on(backend).arun())
    assert RUNS == ["noted", "noted"]
    assert len(backend.calls) == 6 and not plans(backend.calls)


def test_a_call_names_the_longest_beginnings_alone() -> None:
    @function
    def deep(s: State) -> None:
        for number in range(20):
            other = s.copy()
            other += "aside" + gen("x", max_tokens=4)
            s += f"{number}: " + gen(f"y{number}", max_tokens=4)

    backend = ScriptedBackend(lambda prompt: "a b")
    deep.on(backend).run()
    found = plans(backend.calls)
    assert len(found) == 40
    assert max(len(plan.shares) for plan in found) == 8
    begun: dict[str, int] = {}
    uses: dict[str, int] = {}
    for plan in found:
        for share in plan.shares:
            begun[share.name] = begun.get(share.name, 0) + 1
            uses[share.name] = share.uses
    assert begun == uses, "the last call that names a beginning is its last use"
