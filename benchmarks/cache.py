"""How much of the best possible the prefix cache reaches, and what its own work costs.

    python benchmarks/cache.py                       generated workloads on the default model
    python benchmarks/cache.py --model FILE --workloads chat fork
    python benchmarks/cache.py --shared workload.py  the `agent` and `chat` tasks of such a file

The best possible hit rate of a run is 1 - new tokens / prompt tokens, where a prompt's new tokens are those behind
the longest prefix it shares with anything that was there before it: prompts, and outputs but for their last
token, whose keys and values are never computed. Requests that arrive together are counted in their order.

    shared   32 requests at once: 1 000 tokens in common, 40 of their own
    chat     8 conversations of 6 turns: each turn goes on from the one before and its output
    fork     a text of 700 tokens, then 16 branches of 10 tokens at once
    fresh    24 prompts of 600 tokens with nothing in common: what the tree costs when it cannot help
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from sgrt.cache.radix import RadixTree, common_prefix_tokens, pack_tokens
from sgrt.engine.engine import Engine
from sgrt_frontend.call import Call, SamplingParams

Tokens = Sequence[int]
_TREE_OPERATIONS = ("peek", "match", "insert", "evict", "unlock")


@dataclass(slots=True)
class Stopwatch:
    """Seconds spent in the tree's public operations (called one inside another: never)."""

    seconds: float = 0.0

    def watch(self, kind: type[RadixTree], name: str) -> None:
        """Time one operation from now on."""
        operation = getattr(kind, name)

        def timed(*arguments: object, **keywords: object) -> object:
            start = time.perf_counter()
            try:
                return operation(*arguments, **keywords)
            finally:
                self.seconds += time.perf_counter() - start

        setattr(kind, name, timed)


@dataclass(slots=True)
class Run:
    """Runs batches on an engine and keeps account of what could have been reused."""

    engine: Engine
    prompt_tokens: int = 0
    cached_tokens: int = 0
    reusable_tokens: int = 0
    _known: list[bytes] = field(default_factory=list)

    def generate(self, prompts: Sequence[Tokens], max_tokens: int) -> list[list[int]]:
        """Complete all prompts at once, greedily, to exactly `max_tokens`."""
        sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        streams = [self.engine.submit(Call(prompt=tuple(prompt), sampling=sampling)) for prompt in prompts]
        outputs = []
        results = [stream.completions()[0] for stream in streams]
        for prompt in prompts:
            key = pack_tokens(prompt)
            self.reusable_tokens += max(
                (common_prefix_tokens(key, known) for known in self._known), default=0
            )
            self._known.append(key)
        for prompt, result in zip(prompts, results, strict=True):
            usage = result.finish.usage
            self.prompt_tokens += usage.prompt_tokens
            self.cached_tokens += usage.cached_tokens
            self._known.append(pack_tokens([*prompt, *result.token_ids[:-1]]))
            outputs.append(list(result.token_ids))
        return outputs


def words(source: random.Random, count: int) -> list[int]:
    """`count` ordinary token ids."""
    return [source.randrange(1000, 30_000) for _ in range(count)]


def shared(run: Run, source: random.Random) -> None:
    """A common system prompt."""
    system = words(source, 1000)
    run.generate([[*system, *words(source, 40)] for _ in range(32)], 48)


def chat(run: Run, source: random.Random) -> None:
    """Conversations."""
    histories = [words(source, 120) for _ in range(8)]
    for _ in range(6):
        histories = [[*history, *words(source, 36)] for history in histories]
        outputs = run.generate(histories, 48)
        histories = [[*history, *output] for history, output in zip(histories, outputs, strict=True)]


def fork(run: Run, source: random.Random) -> None:
    """Branches of one text."""
    trunk = words(source, 700)
    output = run.generate([trunk], 20)[0]
    run.generate([[*trunk, *output, *words(source, 10)] for _ in range(16)], 16)


def fresh(run: Run, source: random.Random) -> None:
    """Nothing in common."""
    run.generate([words(source, 600) for _ in range(24)], 32)


WORKLOADS: dict[str, Callable[[Run, random.Random], None]] = {
    "shared": shared,
    "chat": chat,
    "fork": fork,
    "fresh": fresh,
}


def report(
    name: str, engine: Engine, work: Callable[[Run], object], stopwatch: Stopwatch
) -> dict[str, object]:
    """Run one workload on an empty cache; its figures."""
    engine.flush_cache_blocking()
    run = Run(engine)
    counters = engine.counters
    before = stopwatch.seconds, counters.forward_tokens, counters.output_tokens, counters.preemptions
    start = time.perf_counter()
    work(run)
    seconds = time.perf_counter() - start
    best = run.reusable_tokens / run.prompt_tokens
    rate = run.cached_tokens / run.prompt_tokens
    return {
        "workload": name,
        "prompt_tokens": run.prompt_tokens,
        "hit_rate": round(rate, 4),
        "best_hit_rate": round(best, 4),
        "of_best": round(rate / best, 4) if best else None,
        "computed_tokens": counters.forward_tokens - before[1],
        "output_tokens": counters.output_tokens - before[2],
        "preemptions": counters.preemptions - before[3],
        "seconds": round(seconds, 3),
        "tree_share": round((stopwatch.seconds - before[0]) / seconds, 6),
    }


def generated(name: str) -> Callable[[Run], object]:
    """One of this file's workloads, always on the same tokens."""
    return lambda run: WORKLOADS[name](run, random.Random(name))


def load(path: Path) -> ModuleType:
    """The workload file as a module."""
    spec = importlib.util.spec_from_file_location("shared_workload", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shared_tasks(path: Path, names: Iterable[str]) -> dict[str, Callable[[Run], object]]:
    """Tasks of a file that has `run_task(task, generate)`."""
    module = load(path)

    def task(name: str) -> Callable[[Run], object]:
        return lambda run: module.run_task(
            name, lambda prompts, count, schema=None: run.generate(prompts, count)
        )

    return {name: task(name) for name in names}


def main() -> None:
    """Parse the command line and print one JSON line per workload."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--shared", type=Path, help="a workload file to take `agent` and `chat` from")
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    stopwatch = Stopwatch()
    for name in _TREE_OPERATIONS:
        stopwatch.watch(RadixTree, name)
    with Engine(options.model, threads=options.threads, max_running=40, verbose=True) as engine:
        tasks = {name: generated(name) for name in options.workloads}
        if options.shared is not None:
            tasks = shared_tasks(options.shared, ("agent", "chat"))
        for name, work in tasks.items():
            print(json.dumps(report(name, engine, work, stopwatch)), flush=True)


if __name__ == "__main__":
    main()
