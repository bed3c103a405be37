"""What HTTP costs: the same calls in process and through a server, and how both classes of priority fare.

    python benchmarks/server.py [--model smollm2] [--threads N]

Prints one line of JSON a measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

import httpx

from sgrt.backend.http import HttpBackend
from sgrt.cli.bench_serve import percentiles
from sgrt.engine.engine import Engine
from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Call, SamplingParams

WORDS = "a story of a small town and the people who live there, told by the oldest of them. " * 6


def calls(backend: Backend, count: int, *, tokens: int, priorities: Sequence[int] = (0,)) -> list[Call]:
    """Calls that share a prefix, as the calls of an agent program do."""
    shared = backend.encode(WORDS)
    sampling = SamplingParams(max_tokens=tokens, min_tokens=tokens, ignore_eos=True)
    return [
        Call(
            prompt=(*shared, *backend.encode(f" Part {number}.")),
            sampling=sampling,
            priority=priorities[number % len(priorities)],
        )
        for number in range(count)
    ]


def agent_calls(backend: Backend, *, number: int, count: int, tokens: int) -> list[Call]:
    """The calls of many agents at once: 1,000 shared tokens, 49 of their own; `number` makes them unlike others'."""
    shared = backend.encode(f"Round {number}. {WORDS * 10}")[:1000]
    sampling = SamplingParams(max_tokens=tokens, min_tokens=tokens, ignore_eos=True)
    return [
        Call(prompt=(*shared, *backend.encode(f" Part {part}. {WORDS}")[:49]), sampling=sampling)
        for part in range(count)
    ]


async def run_call(backend: Backend, call: Call) -> float:
    """Seconds to the first token; the call runs to its end."""
    start, first = time.monotonic(), 0.0
    async for chunk in backend.generate(call):
        if chunk.token_ids and not first:
            first = time.monotonic() - start
    return first


async def throughput(backend: Backend, work: Sequence[Call]) -> float:
    """Output tokens a second of all calls at once."""
    start = time.monotonic()
    await asyncio.gather(*(run_call(backend, call) for call in work))
    return sum(call.sampling.max_tokens or 0 for call in work) / (time.monotonic() - start)


async def first_tokens(backend: Backend, work: Sequence[Call]) -> dict[int, dict[str, float]]:
    """Percentiles of the seconds to the first token by priority, everything sent at once."""
    times = await asyncio.gather(*(run_call(backend, call) for call in work))
    by_priority: dict[int, list[float]] = {}
    for call, seconds in zip(work, times, strict=True):
        by_priority.setdefault(call.priority, []).append(seconds)
    return {priority: percentiles(values) for priority, values in by_priority.items()}


async def health_under_load(url: str, remote: Backend, work: Sequence[Call]) -> dict[str, float]:
    """Percentiles of the seconds /health takes, from before the calls are sent until the last one is answered.

    Asked by a process of its own: this one is busy reading the streams.
    """
    command = (sys.executable, __file__, "--probe-health", url)
    probe = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=_environment()
    )
    assert probe.stdout is not None, "asked for above"
    await probe.stdout.readline()
    await asyncio.gather(*(run_call(remote, call) for call in work))
    report, _ = await probe.communicate(b"")
    return {name: float(value) for name, value in json.loads(report).items()}


def probe_health(url: str) -> None:
    """Ask /health fifty times a second until the standard input ends; prints a line first, the percentiles last."""
    times: list[float] = []
    with httpx.Client(base_url=url, timeout=30) as client:
        client.get("/health").raise_for_status()
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0.02)[0]:
            start = time.monotonic()
            client.get("/health").raise_for_status()
            times.append(time.monotonic() - start)
    print(json.dumps({**percentiles(times), "probes": len(times)}))


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def serve(model: str, threads: int | None, *options: str) -> tuple[subprocess.Popen[str], str]:
    """A server in a process of its own, and its URL."""
    command = [sys.executable, "-m", "sgrt", "serve", model, "--port", "0", *options]
    command += ["--threads", str(threads)] if threads else []
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment())
    assert process.stdout is not None, "asked for above"
    for line in process.stdout:
        if line.startswith("serving "):
            return process, line.split(" at ")[1].split("/v1")[0]
    raise RuntimeError("the server did not start")


def with_server(
    model: str, threads: int | None, work: Callable[[str], Awaitable[object]], *options: str
) -> object:
    """The result of `work` against a fresh server."""
    process, url = serve(model, threads, *options)
    try:
        return asyncio.run(_awaited(work(url)))
    finally:
        process.terminate()
        process.wait(30)


async def _awaited(work: Awaitable[object]) -> object:
    return await work


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--calls", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--probe-health", metavar="URL", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.probe_health:
        probe_health(arguments.probe_health)
        return
    rounds = 4

    def agents(backend: Backend, number: int) -> list[Call]:
        return agent_calls(backend, number=number, count=arguments.calls, tokens=arguments.tokens)

    def show(name: str, **values: object) -> None:
        print(json.dumps({"measurement": name, **values}), flush=True)

    with Engine(arguments.model, threads=arguments.threads) as engine:
        work = [agents(engine, number) for number in range(rounds)]
        best = max(asyncio.run(throughput(engine, part)) for part in work)
        show("in_process_tokens_per_s", value=best)

    async def over_http(url: str) -> object:
        with HttpBackend(url) as remote:
            work = [agents(remote, number) for number in range(rounds)]
            return max([await throughput(remote, part) for part in work])

    remote_best = with_server(arguments.model, arguments.threads, over_http)
    assert isinstance(remote_best, float), "a number of tokens"
    show("http_tokens_per_s", value=remote_best, share_of_in_process=remote_best / best)

    async def health(url: str) -> object:
        with HttpBackend(url) as remote:
            return await health_under_load(url, remote, calls(remote, 64, tokens=96))

    show("health_s_under_64_streams", value=with_server(arguments.model, arguments.threads, health))

    async def many(url: str) -> object:
        with HttpBackend(url) as remote:
            return await throughput(remote, calls(remote, 200, tokens=8))

    show("200_streams_tokens_per_s", value=with_server(arguments.model, arguments.threads, many))

    async def classes(url: str) -> object:
        with HttpBackend(url) as remote:
            await throughput(remote, calls(remote, 1, tokens=1))  # the shared prefix is there for both
            flat = await first_tokens(remote, calls(remote, 32, tokens=24, priorities=(0,)))
            parted = await first_tokens(remote, calls(remote, 32, tokens=24, priorities=(0, 0, 0, 5)))
            share = parted[5]["p99"] / flat[0]["p99"]
            return {"all_alike": flat[0], "high": parted[5], "low": parted[0], "high_p99_share": share}

    show(
        "ttft_s_at_4x_overload_by_priority",
        value=with_server(arguments.model, arguments.threads, classes, "--max-running", "8"),
    )


if __name__ == "__main__":
    main()
