"""Every schema of the data, each under a guard: what is wrong, refused, slow or hungry.

    python benchmarks/grammar_sweep.py --data FOLDER [--tokenizer tokenizer.json] [--part 0/8] [--faults]

The data and the rule of acceptance are those of `grammar_correctness.py maskbench`. A worker process judges one
schema after the other; one that takes longer than `--seconds` or grows beyond `--megabytes` is ended, and the next
worker goes on behind that schema. Schemas that took longer than `--slow` seconds (compilation and instances
together) or grew the process by more than `--hungry` megabytes are listed too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path

from grammar_correctness import Item, Tally, add_data_arguments, judge, sample, setup_of

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one schema. `megabytes`: how far the process grew beyond its size before, at the most."""

    name: str
    counts: Counter[str]
    faults: tuple[tuple[str, str], ...]
    seconds: float
    megabytes: float


def main(arguments: list[str]) -> int:
    """Judge all schemas of one part; 1 if anything was wrong, ended, slow or hungry."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_arguments(parser)
    parser.add_argument("--part", default="0/1", help="I/N: every N-th schema, from the I-th on")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--megabytes", type=float, default=3000.0)
    parser.add_argument("--slow", type=float, default=2.0)
    parser.add_argument("--hungry", type=float, default=500.0)
    parser.set_defaults(sample=0)
    args = parser.parse_args(arguments)
    index, step = map(int, args.part.split("/"))
    items = list(sample(args.data, args.sample, args.seed))[index::step]
    outcomes: list[Outcome] = []
    num_remarks = 0
    for one in _judged(items, args):
        outcomes.append(one)
        remarks = _remarks(one, args)
        num_remarks += len(remarks)
        print(*remarks, sep="\n", end="\n" if remarks else "", flush=True)
    total: Counter[str] = sum((one.counts for one in outcomes), Counter())
    print(f"{len(outcomes)} schemas", dict(total))
    print(
        f"seconds: sum {sum(one.seconds for one in outcomes):.0f}, max {max(one.seconds for one in outcomes):.2f}"
    )
    return int(num_remarks > 0)


def _remarks(one: Outcome, args: argparse.Namespace) -> list[str]:
    lines = [f"{what} | {one.name} | {detail}" for what, detail in one.faults]
    if one.seconds > args.slow:
        lines.append(f"slow | {one.name} | {one.seconds:.2f} s")
    if one.megabytes > args.hungry:
        lines.append(f"hungry | {one.name} | {one.megabytes:.0f} MB")
    return lines


def _judged(items: list[Item], args: argparse.Namespace) -> Iterator[Outcome]:
    """One worker after the other, each from where the last was ended."""
    context = multiprocessing.get_context("fork")
    done = 0
    while done < len(items):
        receiver, sender = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(items[done:], args, sender))
        worker.start()
        sender.close()
        for outcome in _watched(receiver, worker, args):
            done += 1
            yield outcome
        worker.join()
        if done < len(items):
            name = f"{items[done].group}/{items[done].name}"
            done += 1
            fault = ("ended", f"exit status {worker.exitcode}")
            yield Outcome(name=name, counts=Counter(ended=1), faults=(fault,), seconds=0, megabytes=0)


def _watched(receiver: Connection, worker: ForkProcess, args: argparse.Namespace) -> Iterator[Outcome]:
    """What a worker says, until it ends or has to be ended."""
    size_before = began = 0.0
    while True:
        if receiver.poll(POLL_SECONDS):
            try:
                message = receiver.recv()
            except EOFError:
                return
            if isinstance(message, Outcome):
                yield message
            else:
                size_before, began = message, time.monotonic()
        elif began:
            grown = _megabytes(worker.pid or 0) - size_before
            if time.monotonic() - began > args.seconds or grown > args.megabytes:
                worker.kill()
                return


def _work(items: list[Item], args: argparse.Namespace, sender: Connection) -> None:
    setup = setup_of(args)
    for item in items:
        _forget_peak()
        before = _megabytes(os.getpid())
        sender.send(before)
        tally = Tally()
        began = time.perf_counter()
        judge(item, setup, tally)
        sender.send(
            Outcome(
                name=f"{item.group}/{item.name}",
                counts=tally.total(lambda _: True),
                faults=tuple((what, detail) for _, what, detail in tally.faults),
                seconds=time.perf_counter() - began,
                megabytes=_megabytes(os.getpid(), "VmHWM") - before,
            )
        )
    sender.close()


def _megabytes(process: int, what: str = "VmRSS") -> float:
    """The size of a process, or (`VmHWM`) its peak; 0 once it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0
    lines = [line for line in status.splitlines() if line.startswith(what)]
    return int(lines[0].split()[1]) / 1024 if lines else 0.0


def _forget_peak() -> None:
    """Let the peak of this process start anew (Linux)."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
