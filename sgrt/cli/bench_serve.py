"""`sgrt bench serve URL`: load a server with requests that arrive whether or not it keeps up."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import httpx

from sgrt.cli.server_gauges import ServerGauges, left_over
from sgrt.cli.user_file import writing
from sgrt.errors import BackendError, InvalidRequest

_WORDS = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
]
_SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {
        "topic": {"type": "string", "maxLength": 40},
        "score": {"type": "integer", "minimum": 0, "maximum": 10},
    },
    "required": ["topic", "score"],
    "additionalProperties": False,
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "serve",
        help="load a server and report latencies",
        description="Send chats to an OpenAI-compatible server at a given rate (arrivals do not wait for answers).",
    )
    parser.add_argument("url", help="the server, such as http://127.0.0.1:8000")
    parser.add_argument("--api-key", default="", help="the server's key")
    parser.add_argument("--model", default="", help="the model to name (default: the server's first)")
    parser.add_argument("--rate", type=float, default=4.0, help="requests a second (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=64, help="how many (default: %(default)s)")
    parser.add_argument(
        "--duration-s", type=float, default=None, help="send for so long, in place of --requests"
    )
    parser.add_argument(
        "--prompt-words", type=int, default=64, help="words of a prompt (default: %(default)s)"
    )
    parser.add_argument("--shared-words", type=int, default=0, help="words all prompts begin with")
    parser.add_argument("--max-tokens", type=int, default=64, help="of an answer (default: %(default)s)")
    parser.add_argument(
        "--schema-share", type=float, default=0.0, help="share of requests under a JSON Schema"
    )
    parser.add_argument(
        "--slo-ttft-s", type=float, default=1.0, help="goodput: first token (default: %(default)s)"
    )
    parser.add_argument(
        "--slo-tpot-s", type=float, default=0.2, help="goodput: per token (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of prompts and arrivals")
    parser.add_argument("--output", type=Path, default=None, help="write the report as JSON here")


def run(arguments: argparse.Namespace) -> int:
    """Run the load and print the report; 1 if a request failed other than by being refused."""
    _check(arguments)
    load = Load(
        rate=arguments.rate,
        num_requests=arguments.requests,
        duration_s=arguments.duration_s,
        prompt_words=arguments.prompt_words,
        shared_words=arguments.shared_words,
        max_tokens=arguments.max_tokens,
        schema_share=arguments.schema_share,
        seed=arguments.seed,
    )
    results, gauges, num_left = asyncio.run(_measure(arguments, load))
    report = replace(
        summary(results, slo_ttft_s=arguments.slo_ttft_s, slo_tpot_s=arguments.slo_tpot_s),
        server_memory_mib=gauges.memory_mib,
        left_over=num_left,
    )
    print(report.text)
    if arguments.output is not None:
        with writing(arguments.output, "--output"):
            arguments.output.write_text(json.dumps(asdict(report), indent=2) + "\n", encoding="utf-8")
    return 1 if report.failed or report.left_over else 0


def _check(arguments: argparse.Namespace) -> None:
    """Tell what cannot work before anything is sent.

    Raises:
        InvalidRequest: the address is none, or a number is out of range.
    """
    if not arguments.url.startswith(("http://", "https://")):
        raise InvalidRequest(f"url: must begin with http:// or https://, not {arguments.url!r}", param="url")
    if not arguments.rate > 0:
        raise InvalidRequest(f"--rate: must be positive, not {arguments.rate}", param="rate")
    if arguments.requests < 1:
        raise InvalidRequest(f"--requests: must be at least 1, not {arguments.requests}", param="requests")
    if arguments.output is not None and not arguments.output.parent.is_dir():
        raise InvalidRequest(f"--output: {arguments.output.parent}: there is no such folder", param="output")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent. Arrivals are Poisson at `rate` a second."""

    rate: float
    num_requests: int
    duration_s: float | None
    prompt_words: int
    shared_words: int
    max_tokens: int
    schema_share: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One request. Times are seconds from when it was sent; `token_times_s` when each piece came."""

    status: int
    sent_s: float
    token_times_s: tuple[float, ...] = ()
    total_s: float = 0.0
    num_tokens: int = 0
    error: str = ""

    @property
    def ttft_s(self) -> float:
        """Seconds to the first piece."""
        return self.token_times_s[0]

    @property
    def tpot_s(self) -> float:
        """Mean seconds per token after the first."""
        if self.num_tokens < 2:
            return 0.0
        return (self.token_times_s[-1] - self.token_times_s[0]) / (self.num_tokens - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a load came to. Percentiles are {"p50": seconds, ...}; rates are per second.

    `server_memory_mib` and `left_over` (requests still counted once all were answered) are what the server says.
    """

    requests: int
    completed: int
    refused: int
    failed: int
    seconds: float
    requests_per_s: float
    tokens_per_s: float
    goodput_per_s: float
    ttft_s: dict[str, float]
    tpot_s: dict[str, float]
    total_s: dict[str, float]
    errors: tuple[str, ...]
    server_memory_mib: dict[str, float] = field(default_factory=dict)
    left_over: int | None = None

    @property
    def text(self) -> str:
        """The report for people."""
        lines = [
            f"requests {self.requests}: {self.completed} completed, {self.refused} refused, {self.failed} failed "
            f"in {self.seconds:.1f} s",
            f"throughput {self.requests_per_s:.2f} requests/s, {self.tokens_per_s:.1f} tokens/s, "
            f"goodput {self.goodput_per_s:.2f} requests/s",
        ]
        for name, values in (("ttft", self.ttft_s), ("tpot", self.tpot_s), ("total", self.total_s)):
            shown = "  ".join(f"{key} {value * 1000:.1f} ms" for key, value in values.items())
            lines.append(f"{name:<6} {shown}")
        if self.server_memory_mib:
            memory = "  ".join(f"{key} {value:.0f} MiB" for key, value in self.server_memory_mib.items())
            lines.append(f"server memory {memory}, {self.left_over} requests left over")
        return "\n".join([*lines, *(f"error: {error}" for error in self.errors)])


def summary(results: list[Result], *, slo_ttft_s: float, slo_tpot_s: float) -> Report:
    """The report of `results`. A request that was refused (429, 503) did not fail; one cut short did."""
    done = [result for result in results if result.status == httpx.codes.OK and not result.error]
    refused = [result for result in results if result.status in (429, 503)]
    failed = [
        result
        for result in results
        if result.error
        and result.status not in (httpx.codes.TOO_MANY_REQUESTS, httpx.codes.SERVICE_UNAVAILABLE)
    ]
    start = min((result.sent_s for result in results), default=0.0)
    end = max((result.sent_s + result.total_s for result in results), default=0.0)
    seconds = max(end - start, 1e-9)
    timed = [result for result in done if result.token_times_s]
    good = [result for result in timed if result.ttft_s <= slo_ttft_s and result.tpot_s <= slo_tpot_s]
    return Report(
        requests=len(results),
        completed=len(done),
        refused=len(refused),
        failed=len(failed),
        seconds=seconds,
        requests_per_s=len(done) / seconds,
        tokens_per_s=sum(result.num_tokens for result in done) / seconds,
        goodput_per_s=len(good) / seconds,
        ttft_s=percentiles([result.ttft_s for result in timed]),
        tpot_s=percentiles([result.tpot_s for result in timed if result.num_tokens > 1]),
        total_s=percentiles([result.total_s for result in done]),
        errors=tuple(sorted({result.error for result in failed}))[:5],
    )


def percentiles(values: list[float]) -> dict[str, float]:
    """p50, p90, p99 and the largest, by nearest rank; empty without values."""
    if not values:
        return {}
    ordered = sorted(values)

    def rank(percent: int) -> float:
        return ordered[math.ceil(percent * len(ordered) / 100) - 1]

    return {"p50": rank(50), "p90": rank(90), "p99": rank(99), "max": ordered[-1]}


async def _measure(
    arguments: argparse.Namespace, load: Load
) -> tuple[list[Result], ServerGauges, int | None]:
    headers = {"authorization": f"Bearer {arguments.api_key}"} if arguments.api_key else {}
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    async with httpx.AsyncClient(
        base_url=arguments.url, headers=headers, limits=limits, timeout=httpx.Timeout(600.0)
    ) as client:
        model = arguments.model or await _first_model(client)
        gauges = ServerGauges()
        watching = asyncio.ensure_future(gauges.watch(client))
        results = await send_load(client, load, model)
        watching.cancel()
        await asyncio.wait({watching})
        return results, gauges, await left_over(client)


async def _first_model(client: httpx.AsyncClient) -> str:
    try:
        response = await client.get("/v1/models")
        return str(response.json()["data"][0]["id"])
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, IndexError, ValueError) as error:
        raise BackendError(f"{client.base_url}: no list of models ({error})") from error


async def send_load(client: httpx.AsyncClient, load: Load, model: str) -> list[Result]:
    """Send the whole load and wait for every answer."""
    source = random.Random(load.seed)
    shared = _text(source, load.shared_words)
    tasks: list[asyncio.Task[Result]] = []
    start = time.monotonic()
    arrival = start
    while True:
        now = time.monotonic()
        is_over = (
            now - start >= load.duration_s if load.duration_s is not None else len(tasks) >= load.num_requests
        )
        if is_over:
            break
        body = _body(source, load, shared, model)
        tasks.append(asyncio.create_task(_send(client, body)))
        arrival += source.expovariate(load.rate)
        await asyncio.sleep(max(0.0, arrival - time.monotonic()))
    return list(await asyncio.gather(*tasks))


def _body(source: random.Random, load: Load, shared: str, model: str) -> dict[str, object]:
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": "user", "content": f"{shared} {_text(source, load.prompt_words)}".strip()}],
        "max_tokens": load.max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if source.random() < load.schema_share:
        schema = {"name": "rating", "schema": _SCHEMA}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    return body


def _text(source: random.Random, words: int) -> str:
    return " ".join(source.choice(_WORDS) for _ in range(words))


async def _send(client: httpx.AsyncClient, body: dict[str, object]) -> Result:
    sent = time.monotonic()
    times: list[float] = []
    num_tokens = 0
    error = "the stream ended without [DONE]"
    status = 0
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            status = response.status_code
            if status != httpx.codes.OK:
                text = (await response.aread()).decode("utf-8", "replace")
                return Result(status=status, sent_s=sent, total_s=time.monotonic() - sent, error=text[:200])
            async for line in response.aiter_lines():
                if line == "data: [DONE]":
                    error = ""
                elif line.startswith("data: "):
                    item = json.loads(line.removeprefix("data: "))
                    if "error" in item:
                        error = str(item["error"].get("message"))
                        break
                    times += [time.monotonic() - sent] if _has_text(item) else []
                    num_tokens = (item.get("usage") or {}).get("completion_tokens", num_tokens)
    except httpx.HTTPError as failure:
        error = f"{type(failure).__name__}: {failure}"
    return Result(
        status=status,
        sent_s=sent,
        token_times_s=tuple(times),
        total_s=time.monotonic() - sent,
        num_tokens=num_tokens,
        error=error,
    )


def _has_text(item: dict[str, object]) -> bool:
    choices = item.get("choices")
    return isinstance(choices, list) and any(choice["delta"].get("content") for choice in choices)
