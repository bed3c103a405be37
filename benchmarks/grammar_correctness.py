"""Who is right: instances of public data sets, token by token, through compiled schemas.

    python benchmarks/grammar_correctness.py maskbench --data FOLDER [--sample 300 --seed 0]
    python benchmarks/grammar_correctness.py suite --data FOLDER [--draft draft2020-12]

FOLDER holds `maskbench/<data set>.jsonl.gz` (a line: {id, schema, tests: [{valid, data}]}) and
`JSON-Schema-Test-Suite/tests`; by default it is `$SHARED/bench/grammar/data`. The tokenizer is a
`tokenizer.json`; without one every byte is a token. An instance is accepted iff the mask allows every token,
the matcher takes it, and the text may end after the last one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from sgrt_grammars import (
    Grammar,
    GrammarCompiler,
    GrammarError,
    JsonSchema,
    PropertyOrder,
    UnsatisfiableConstraint,
    Vocabulary,
    Whitespace,
    empty_mask,
    is_allowed,
)

# Schemas of each data set in a sample of 300.
SHARES = {
    "Github_trivial": 20, "Github_easy": 40, "Github_medium": 45, "Github_hard": 40, "Github_ultra": 15,
    "Glaiveai2K": 25, "JsonSchemaStore": 30, "Kubernetes": 25, "Snowplow": 25, "WashingtonPost": 15,
    "MCPspec": 5, "JME": 5, "BFCL_simple": 5, "BFCL_multiple": 3, "BFCL_java": 2,
}  # fmt: skip
INSTANCES_PER_SCHEMA = 5
END = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One schema with instances: (valid or not, value)."""

    group: str
    name: str
    schema: object
    instances: tuple[tuple[bool, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """How schemas are compiled and texts are split."""

    compiler: GrammarCompiler
    encode: Callable[[str], list[int]]
    whitespace: Whitespace
    order: PropertyOrder


@dataclass(slots=True)
class Tally:
    """Counts per group, what went wrong, and how long compilation took."""

    counts: dict[str, Counter[str]] = field(default_factory=dict)
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def count(self, group: str, what: str, number: int = 1) -> None:
        """Add to a count."""
        self.counts.setdefault(group, Counter())[what] += number

    def total(self, groups: Callable[[str], bool]) -> Counter[str]:
        """The sum over some groups."""
        return sum((one for name, one in self.counts.items() if groups(name)), Counter())


def main(arguments: list[str]) -> int:
    """Run one of the two data sets; 1 if an invalid instance was accepted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["maskbench", "suite"])
    add_data_arguments(parser)
    parser.add_argument("--draft", default="draft2020-12")
    parser.add_argument("--faults", action="store_true", help="print everything that was not right")
    args = parser.parse_args(arguments)
    setup = setup_of(args)
    tally = Tally()
    items = (
        sample(args.data, args.sample, args.seed)
        if args.what == "maskbench"
        else _suite(args.data, args.draft)
    )
    for item in items:
        judge(item, setup, tally)
    _report(args, tally)
    return int(tally.total(lambda _: True)["invalid accepted"] > 0)


def add_data_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the data lies, which part of it is taken, and how schemas are compiled."""
    default = Path(os.environ.get("SHARED", "../shared")) / "bench/grammar/data"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json; without it every byte is a token")
    parser.add_argument("--sample", type=int, default=300, help="schemas in the sample; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--order", choices=[order.value for order in PropertyOrder], default="any")
    parser.add_argument("--whitespace", choices=[mode.value for mode in Whitespace], default="flexible")


def setup_of(args: argparse.Namespace) -> Setup:
    """The compiler and the tokenizer that the arguments name."""
    if args.tokenizer is None:
        vocabulary = Vocabulary([*(bytes([byte]) for byte in range(256)), None], [END])
        encode: Callable[[str], list[int]] = lambda text: list(text.encode())  # noqa: E731
    else:
        tokenizer: Any = Tokenizer.from_file(str(args.tokenizer))
        vocabulary = Vocabulary.from_tokenizer_json(args.tokenizer.read_text(encoding="utf-8"))
        encode = lambda text: list(tokenizer.encode(text, add_special_tokens=False).ids)  # noqa: E731
    return Setup(
        compiler=GrammarCompiler(vocabulary),
        encode=encode,
        whitespace=Whitespace(args.whitespace),
        order=PropertyOrder(args.order),
    )


def sample(folder: Path, size: int, seed: int) -> Iterator[Item]:
    """A stratified sample of the schemas that have instances; a data set that is too small gives all it has."""
    chosen: list[tuple[str, dict[str, Any]]] = []
    for name, share in SHARES.items():
        path = folder / "maskbench" / f"{name}.jsonl.gz"
        if not path.exists():
            continue
        with gzip.open(path, "rt", encoding="utf-8") as file:
            entries = [entry for entry in map(json.loads, file) if entry["tests"]]
        if size > 0:
            count = max(1, round(share * size / sum(SHARES.values())))
            entries = random.Random(f"{seed}/{name}").sample(entries, min(count, len(entries)))
        chosen += [(name, entry) for entry in entries]
    random.Random(seed).shuffle(chosen)
    for name, entry in chosen:
        tests = [(bool(test["valid"]), test["data"]) for test in entry["tests"]]
        kept = [*_first(tests, True), *_first(tests, False)]
        yield Item(group=name, name=entry["id"], schema=entry["schema"], instances=tuple(kept))


def _first(tests: list[tuple[bool, object]], is_valid: bool) -> list[tuple[bool, object]]:
    return [test for test in tests if test[0] is is_valid][:INSTANCES_PER_SCHEMA]


def _suite(folder: Path, draft: str) -> Iterator[Item]:
    base = folder / "JSON-Schema-Test-Suite" / "tests" / draft
    for pattern in ("*.json", "optional/*.json", "optional/format/*.json"):
        for path in sorted(base.glob(pattern)):
            group = str(path.relative_to(base).with_suffix(""))
            for case in json.loads(path.read_text(encoding="utf-8")):
                tests = tuple((bool(test["valid"]), test["data"]) for test in case["tests"])
                yield Item(group=group, name=case["description"], schema=case["schema"], instances=tests)


def judge(item: Item, setup: Setup, tally: Tally) -> None:
    """Compile one schema and try its instances."""
    text = json.dumps(item.schema)
    began = time.perf_counter()
    try:
        grammar = setup.compiler.compile(
            JsonSchema(text=text, whitespace=setup.whitespace, order=setup.order)
        )
    except GrammarError as error:
        kind = "unsatisfiable" if isinstance(error, UnsatisfiableConstraint) else "refused"
        tally.count(item.group, kind)
        tally.count(item.group, "instances of refused schemas", len(item.instances))
        tally.faults.append((f"{item.group}/{item.name}", kind, str(error)[:200]))
        return
    tally.seconds.append(time.perf_counter() - began)
    is_all_right = True
    for is_valid, value in item.instances:
        try:
            accepted = _accepts(grammar, setup.encode(json.dumps(value, ensure_ascii=False)))
        except (GrammarError, RuntimeError) as error:
            tally.count(item.group, "errors")
            tally.faults.append((f"{item.group}/{item.name}", "error", str(error)[:200]))
            is_all_right = False
            continue
        verdict = "right" if accepted is is_valid else "invalid accepted" if accepted else "valid refused"
        tally.count(item.group, verdict)
        if accepted is not is_valid:
            is_all_right = False
            tally.faults.append((f"{item.group}/{item.name}", verdict, json.dumps(value)[:200]))
    tally.count(item.group, "schemas all right", int(is_all_right))


def _accepts(grammar: Grammar, tokens: list[int]) -> bool:
    matcher = grammar.matcher()
    mask = empty_mask(grammar.vocabulary.size)
    for token in tokens:
        matcher.mask(mask)
        is_open = is_allowed(mask, token)
        if matcher.advance(token) is not is_open:
            raise RuntimeError(f"the mask and the matcher disagree about token {token}")
        if not is_open:
            return False
    return matcher.is_accepting


def _report(args: argparse.Namespace, tally: Tally) -> None:
    if args.what == "suite":
        optional = ("format", "content")
        print(
            "core", dict(tally.total(lambda name: not name.startswith("optional/") and name not in optional))
        )
        print(
            "optional + format",
            dict(tally.total(lambda name: name.startswith("optional/") or name in optional)),
        )
    else:
        print("all", dict(tally.total(lambda _: True)))
    ordered = sorted(tally.seconds)
    if ordered:
        mean, half = sum(ordered) / len(ordered), ordered[len(ordered) // 2]
        print(f"compile ms: mean {mean * 1e3:.2f}, p50 {half * 1e3:.2f}, max {ordered[-1] * 1e3:.1f}")
    for place, what, detail in tally.faults if args.faults else ():
        print(what, place, detail, sep=" | ")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
