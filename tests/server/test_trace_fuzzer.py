"""Random schedules of requests over a tiny cache: each output is what the same request alone would have got."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import httpx
import jsonschema
import pytest
from engine_server import engine_serving
from server_client import events
from starlette.applications import Starlette

PREFIXES = ("alpha " * 20, "alpha " * 20 + "beta " * 12, "gamma " * 24, "")
STOPS: tuple[object, ...] = (None, None, "B", ["XY", "E", "k"], ["AB", "ABC", "no such text"])
CONSTRAINTS: tuple[dict[str, object] | None, ...] = (
    None,
    {"regex": "[a-z]{5,20}"},
    {"choice": ["yes, it is so", "no, never", "yes, but"]},
    {
        "json": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "boolean"}}},
            "required": ["a", "b"],
        }
    },
)


def muddled(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
    """Wants that depend on every token before: a page of a stranger would change them."""
    state = crc32(bytes(token % 256 for token in (*prompt, *output)), len(prompt))
    return {65 + (state >> shift) % 50: 6.0 + shift for shift in (0, 4, 8, 12)} | {266: 2.0 + state % 9}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request of a trace: when it starts, and when its client gives up if it does."""

    body: dict[str, object]
    starts_s: float
    gives_up_s: float | None


def trace(seed: int, count: int) -> list[Step]:
    """A random schedule."""
    source = random.Random(seed)
    steps = []
    for _ in range(count):
        body: dict[str, object] = {
            "prompt": source.choice(PREFIXES) + source.choice(["one", "two", "three " * 8]),
            "max_tokens": source.randint(25, 45),
            "temperature": 0,
            "return_token_ids": True,
            "stream": source.random() < 0.4,
            "priority": source.randint(0, 2),
            "n": source.choice([1, 1, 2, 3]),
        }
        if source.random() < 0.3:
            body |= {"temperature": 1.0, "seed": source.randint(0, 1000)}
        constraint = source.choice(CONSTRAINTS)
        if constraint is not None:
            body["structured_outputs"] = constraint
        else:
            body |= {"stop": source.choice(STOPS), "min_tokens": source.choice([0, 0, 9])}
        gives_up = source.uniform(0.0, 0.08) if source.random() < 0.35 else None
        steps.append(Step(body=body, starts_s=source.uniform(0, 0.1), gives_up_s=gives_up))
    return steps


@dataclass(slots=True)
class Output:
    """One output of a request."""

    token_ids: list[int] = field(default_factory=list)
    text: str = ""
    finish_reasons: list[str] = field(default_factory=list)
    stop_reason: object = None


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> list[Output]:
    response = await client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text
    outputs = [Output() for _ in range(int(str(body["n"])))]
    items: list[Any] = list(events(response)) if body["stream"] else [response.json()]
    for item in items:
        for choice in item["choices"]:
            output = outputs[choice["index"]]
            output.token_ids += choice["token_ids"]
            output.text += choice["text"]
            output.finish_reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
            output.stop_reason = choice["stop_reason"] or output.stop_reason
    assert all(len(output.finish_reasons) == 1 for output in outputs)
    for output in outputs:
        check_shape(output.text, body)
    return outputs


def check_shape(text: str, body: dict[str, object]) -> None:
    """What was asked for is there, whoever else was served."""
    constraint = body.get("structured_outputs")
    if not isinstance(constraint, dict):
        return
    if "choice" in constraint:
        assert text in constraint["choice"]
    elif "json" in constraint:
        jsonschema.validate(json.loads(text), constraint["json"])
    else:
        assert re.fullmatch(constraint["regex"], text)


async def play(app: Starlette, steps: list[Step]) -> list[list[Output]]:
    """Run the whole schedule; whoever gives up asks again."""
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://server", timeout=60) as client:

        async def one(step: Step) -> list[Output]:
            await asyncio.sleep(step.starts_s)
            if step.gives_up_s is not None:
                task = asyncio.ensure_future(ask(client, step.body))
                done, _ = await asyncio.wait({task}, timeout=step.gives_up_s)
                if not done:
                    task.cancel()
                    await asyncio.wait({task})
            return await ask(client, step.body)

        return list(await asyncio.gather(*map(one, steps)))


def run_trace(seed: int, count: int) -> None:
    steps = trace(seed, count)
    with engine_serving(muddled, num_pages=512, settings={"checks_integrity": False}) as (client, _):
        alone = [
            asyncio.run(play(client.app, [Step(body=step.body, starts_s=0, gives_up_s=None)]))
            for step in steps
        ]
    with engine_serving(muddled, num_pages=16, settings={"max_running": 6}) as (client, engine):
        together = asyncio.run(play(client.app, steps))
        assert client.app.state.service.admission.num_requests == 0
        asyncio.run(engine.flush_cache())
        assert asyncio.run(engine.flush_cache()) == 0
        client.complete(prompt="x", max_tokens=1)  # sizes are measured by a step,
        engine.check_integrity()  # which is over once this is answered
        assert engine.stats()["kv_pages_used"] <= 2
    assert together == [outputs[0] for outputs in alone]


@pytest.mark.parametrize("seed", range(10))
def test_a_crowd_changes_nothing(seed: int) -> None:
    run_trace(seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_crowds_change_nothing(seed: int) -> None:
    run_trace(seed, 40)
