"""Grammar decoding side by side: sgrt, llguidance and xgrammar on the same schemas and instances.

    python benchmarks/grammar.py --data FOLDER [--tokenizer smollm2] [--sample 300] [--engines sgrt llguidance]

FOLDER holds `data/maskbench/<set>.jsonl.gz` (a line is `{id, schema, tests: [{valid, data}]}`) and
`tokenizers/<name>.json`; its default is `bench/grammar` of the folder that the environment variable SHARED names. Each
engine runs in one process of its own, single-threaded. An instance is accepted iff every token is
in the mask and is taken, and the text may end. Times are wall clock of one call, or CPU time where the process
was evidently preempted. `sgrt` takes keys in the schema's order alone, as it is by default, so that valid instances
with other orders are refused; `sgrt-any-order` takes any. Schema to first mask is compilation and the first mask together.
Masks within a budget leave between one and two times the tokens of the shortest completion known; only sgrt has them.
"""

from __future__ import annotations

import argparse
import gc
import gzip
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from grammar_engines import ENGINES, Engine, Tokens

QUOTA = {
    "Github_trivial": 20,
    "Github_easy": 40,
    "Github_medium": 45,
    "Github_hard": 40,
    "Github_ultra": 15,
    "Glaiveai2K": 25,
    "JsonSchemaStore": 30,
    "Kubernetes": 25,
    "Snowplow": 25,
    "WashingtonPost": 15,
    "MCPspec": 5,
    "JME": 5,
    "BFCL_simple": 5,
    "BFCL_multiple": 3,
    "BFCL_java": 2,
}
"""Schemas of each data set in a sample of 300."""
PREEMPTED_NS = 20_000
MAX_TOKENS = 3000
MAX_BUDGETS = 100
"""Tokens of an instance along which masks under a budget are timed."""
WORST_CASES: dict[str, tuple[object, str]] = {
    "counted dense class": ({"type": "string", "pattern": "^[^,]{1,200}$"}, '"abc def ghi jkl mno'),
    "300 optional properties": (
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {f"p{i}": {"type": "string"} for i in range(300)},
        },
        '{"p1": "abc", "p200": "x',
    ),
    "enum of 5000": ({"enum": [f"value_{i:05d}_{i % 7}" for i in range(5000)]}, '"value_00'),
    "maxLength 10000": ({"type": "string", "maxLength": 10000}, '"' + "a" * 50),
    "search pattern": ({"type": "string", "pattern": "^(.*foo.*|.*bar.*)$"}, '"abc'),
}


def timed(function: Callable[..., Any], *arguments: object) -> tuple[Any, int]:
    """(result, nanoseconds)."""
    cpu = time.process_time_ns()
    wall = time.perf_counter_ns()
    result = function(*arguments)
    wall = time.perf_counter_ns() - wall
    cpu = time.process_time_ns() - cpu
    return result, cpu if wall - cpu > PREEMPTED_NS else wall


def entries(folder: Path, name: str) -> Iterator[dict[str, Any]]:
    """The schemas of a data set that come with instances."""
    path = folder / "data" / "maskbench" / f"{name}.jsonl.gz"
    if path.exists():
        with gzip.open(path, "rt", encoding="utf8") as file:
            for line in file:
                entry = json.loads(line)
                if entry["tests"]:
                    yield entry


def sampled(folder: Path, size: int, seed: int) -> list[dict[str, Any]]:
    """A stratified sample, the data sets interleaved."""
    chosen: list[dict[str, Any]] = []
    for name, quota in QUOTA.items():
        found = list(entries(folder, name))
        share = max(1, round(quota * size / sum(QUOTA.values())))
        chosen += random.Random(f"{seed}/{name}").sample(found, min(share, len(found)))
    random.Random(seed).shuffle(chosen)
    return chosen


def is_on(engine: Engine, token: int) -> bool:
    """Whether the last mask allows `token`."""
    return bool(int(engine.bits[token >> 5]) >> (token & 31) & 1)


def accepts(engine: Engine, matcher: object, ids: list[int], record: dict[str, Any]) -> bool:
    """Whether an instance can be generated; the times of its masks and commits are noted."""
    for token in ids[:MAX_TOKENS]:
        record["mask_ns"].append(timed(engine.mask, matcher)[1])
        if not is_on(engine, token):
            return False
        is_taken, elapsed = timed(engine.commit, matcher, token)
        record["commit_ns"].append(elapsed)
        if not is_taken:
            return False
    return len(ids) > MAX_TOKENS or engine.may_end(matcher)


def time_budgets(engine: Engine, matcher: object, ids: list[int], chance: random.Random) -> list[int]:
    """Nanoseconds of masks along a valid instance that leave between one and two times the known completion's tokens."""
    elapsed: list[int] = []
    for token in ids[:MAX_BUDGETS]:
        witness = engine.witness(matcher)
        if witness is None:
            break
        elapsed.append(timed(engine.mask_within, matcher, witness + chance.randint(0, witness))[1])
        if not engine.commit(matcher, token):
            break
    return elapsed


def run_schema(engine: Engine, tokens: Tokens, entry: dict[str, Any], limit: int) -> dict[str, Any]:
    """One schema: compile, first mask, its instances."""
    record: dict[str, Any] = {"id": entry["id"], "mask_ns": [], "commit_ns": [], "tests": []}
    text = json.dumps(entry["schema"])
    try:
        grammar, compile_ns = timed(engine.compile, text)
        matcher = engine.start(grammar)
        record["first_mask_ns"] = compile_ns + timed(engine.mask, matcher)[1]
    except Exception as error:  # noqa: BLE001 (a refusal of any engine is a result)
        record["refused"] = f"{type(error).__name__}: {error}"[:300]
        return record
    seen = {True: 0, False: 0}
    for test in entry["tests"]:
        seen[test["valid"]] += 1
        if seen[test["valid"]] <= limit:
            ids = tokens.encode(json.dumps(test["data"], ensure_ascii=False))
            try:
                verdict = accepts(engine, engine.start(grammar), ids, record)
            except Exception as error:  # noqa: BLE001
                record["error"] = f"{type(error).__name__}: {error}"[:300]
                verdict = not test["valid"]
            record["tests"].append([test["valid"], verdict])
    return record


def run_budgets(engine: Engine, tokens: Tokens, entry: dict[str, Any]) -> dict[str, Any]:
    """Masks within budgets along the first valid instance of a schema."""
    first = next((test["data"] for test in entry["tests"] if test["valid"]), None)
    try:
        matcher = engine.start(engine.compile(json.dumps(entry["schema"])))
    except Exception:  # noqa: BLE001 (noted as refused before)
        return {"budget_ns": []}
    ids = [] if first is None else tokens.encode(json.dumps(first, ensure_ascii=False))
    return {"budget_ns": time_budgets(engine, matcher, ids, random.Random(entry["id"]))}


def run_worst_cases(engine: Engine, tokens: Tokens) -> dict[str, float]:
    """Mean microseconds of a mask over the prefixes of constructed hard cases, all states cold."""
    means: dict[str, float] = {}
    for name, (schema, prefix) in WORST_CASES.items():
        try:
            matcher = engine.start(engine.compile(json.dumps(schema)))
            times = []
            for token in tokens.encode(prefix):
                times.append(timed(engine.mask, matcher)[1])
                engine.commit(matcher, token)
            times.append(timed(engine.mask, matcher)[1])
            means[name] = sum(times) / len(times) / 1000
        except Exception:  # noqa: BLE001
            means[name] = float("nan")
    return means


def worker(arguments: argparse.Namespace) -> None:
    """Run one engine and print one JSON object per line."""
    tokens = Tokens(arguments.data / "tokenizers" / f"{arguments.tokenizer}.json")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine, elapsed = timed(lambda: ENGINES[arguments.worker](tokens))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    print(json.dumps({"set_up_s": elapsed / 1e9, "set_up_mb": grown / 1024}), flush=True)
    gc.disable()
    for entry in sampled(arguments.data, arguments.sample, arguments.seed):
        print(json.dumps(run_schema(engine, tokens, entry, arguments.instances)), flush=True)
        gc.collect()
    print(json.dumps({"worst": run_worst_cases(engine, tokens)}), flush=True)
    for entry in sampled(arguments.data, arguments.sample, arguments.seed):
        print(json.dumps(run_budgets(engine, tokens, entry)), flush=True)


def run_engine(name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The records of one engine, from a process of its own."""
    command = [sys.executable, __file__, "--worker", name, "--data", str(arguments.data)]
    command += ["--tokenizer", arguments.tokenizer, "--sample", str(arguments.sample)]
    command += ["--seed", str(arguments.seed), "--instances", str(arguments.instances)]
    threads = {"OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, env={**os.environ, **threads}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"{name} ended with {done.returncode}; its figures are partial", file=sys.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def at(values: list[float], percent: float) -> float:
    """A percentile; nan of nothing."""
    return values[min(len(values) - 1, int(len(values) * percent / 100))] if values else float("nan")


def figures(records: list[dict[str, Any]], shared: set[str]) -> dict[str, float]:
    """The rows of the table; speed over the schemas in `shared` alone."""
    schemas = [record for record in records if "id" in record]
    ready = [record for record in schemas if "refused" not in record]
    tests = [test for record in ready for test in record["tests"]]
    rows: dict[str, float] = {
        "schemas": len(schemas),
        "refused": len(schemas) - len(ready),
        "all right": sum(all(v is a for v, a in record["tests"]) for record in ready),
        "valid refused": sum(v and not a for v, a in tests),
        "invalid accepted": sum(a and not v for v, a in tests),
        "errors": sum("error" in record for record in ready),
    }
    ready = [record for record in ready if record["id"] in shared]
    masks = sorted(ns / 1e3 for record in ready for ns in record["mask_ns"])
    commits = sorted(ns / 1e3 for record in ready for ns in record["commit_ns"])
    budgets = sorted(ns / 1e3 for record in records for ns in record.get("budget_ns", ()))
    firsts = sorted(record["first_mask_ns"] / 1e6 for record in ready)
    rows["mask us mean"] = sum(masks) / max(1, len(masks))
    rows |= {f"mask us p{p}": at(masks, p) for p in (50, 90, 99, 99.9)} | {"mask us max": at(masks, 100)}
    rows |= {"commit us mean": sum(commits) / max(1, len(commits)), "commit us p99": at(commits, 99)}
    if budgets:
        rows["mask us within a budget mean"] = sum(budgets) / len(budgets)
        rows |= {f"mask us within a budget p{p}": at(budgets, p) for p in (50, 99)}
        rows["mask us within a budget max"] = at(budgets, 100)
    rows["schema to first mask ms mean"] = sum(firsts) / max(1, len(firsts))
    rows |= {f"schema to first mask ms p{p}": at(firsts, p) for p in (50, 90, 99)}
    for record in records:
        rows |= {f"{key}": record[key] for key in ("set_up_s", "set_up_mb") if key in record}
        rows |= {f"{case}: mask us mean": mean for case, mean in record.get("worst", {}).items()}
    return rows


def print_table(results: dict[str, list[dict[str, Any]]]) -> None:
    """One column per engine, and the ratio of the first to each other where it is a cost."""
    ready = [{r["id"] for r in records if "id" in r and "refused" not in r} for records in results.values()]
    shared = set.intersection(*ready)
    columns = {name: figures(records, shared) for name, records in results.items()}
    first, *others = columns
    print(f"speed over the {len(shared)} schemas that every engine compiled")
    print("| |" + "|".join([*columns, *(f"{first} / {other}" for other in others)]) + "|")
    print("|---" * (1 + len(columns) + len(others)) + "|")
    for row in columns[first]:
        is_cost = any(unit in row for unit in (" us ", " ms ", "set_up"))
        cells = [f"{columns[name].get(row, float('nan')):.4g}" for name in columns]
        for other in others:
            cost = columns[other].get(row, float("nan"))
            cells.append(f"{columns[first][row] / cost:.2f}x" if is_cost and cost else "")
        print(f"|{row}|" + "|".join(cells) + "|")


def main() -> None:
    """Read the command line."""
    shared = os.environ.get("SHARED")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path(shared) / "bench" / "grammar" if shared else None)
    parser.add_argument("--tokenizer", default="smollm2")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--sample", type=int, default=300, help="schemas, stratified over the data sets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--instances", type=int, default=5, help="valid, and invalid, instances per schema")
    parser.add_argument("--records", type=Path, help="write every record here, as JSON lines")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.data is None:
        parser.error("pass --data, or set SHARED")
    if arguments.worker:
        worker(arguments)
        return
    results = {name: run_engine(name, arguments) for name in arguments.engines}
    if arguments.records:
        with arguments.records.open("w", encoding="utf8") as file:
            for name, records in results.items():
                file.writelines(json.dumps({"engine": name, **record}) + "\n" for record in records)
    print_table(results)


if __name__ == "__main__":
    main()
