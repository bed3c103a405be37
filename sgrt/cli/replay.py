"""`sgrt replay TRACE FILE:PROGRAM`: run a program against a recorded trace, without a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from sgrt.cli.program_file import load_program
from sgrt.cli.user_file import read_bytes, writing
from sgrt_frontend.chrome_trace import save_chrome_trace
from sgrt_frontend.explain_cache import CacheExplanation, explain_cache
from sgrt_frontend.replay import replay
from sgrt_frontend.trace import Trace
from sgrt_frontend.trace_file import load_trace


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "replay",
        help="run a program against a recorded trace",
        description="Run a program with the answers of a trace and name the first divergence. Without a program, "
        "say what the trace holds, or use --cache and --chrome.",
    )
    parser.add_argument("trace", type=Path, help="the trace's file")
    parser.add_argument("program", nargs="?", help="FILE:PROGRAM")
    parser.add_argument("--cache", action="store_true", help="say per call what was reused, and why not more")
    parser.add_argument("--chrome", type=Path, help="write the calls for Chrome's tracing page or Perfetto")


def run(arguments: argparse.Namespace) -> int:
    """Replay; 0 when the program does what the trace has, 1 when it diverges."""
    read_bytes(arguments.trace, "trace")  # what cannot be read is told in the words of all commands
    trace = load_trace(arguments.trace)
    print(f"{trace.program} on {trace.model}: {len(trace.calls)} calls, seed {trace.seed}")
    if arguments.cache:
        for explained in explain_cache(trace):
            print(_cache_line(explained))
    if arguments.chrome is not None:
        with writing(arguments.chrome, "--chrome"):
            save_chrome_trace(trace, arguments.chrome)
        print(f"wrote {arguments.chrome}")
    return _replayed(arguments.program, trace) if arguments.program else 0


def _replayed(program: str, trace: Trace) -> int:
    outcome = replay(load_program(program), trace)
    if outcome.divergence is not None:
        print(f"diverges: {outcome.divergence}")
        return 1
    print(f"the same: {outcome.calls} calls")
    return 0


def _cache_line(explained: CacheExplanation) -> str:
    line = (
        f"{explained.label:16} {explained.variable:14} {explained.cached_tokens:6} of {explained.prompt_tokens:6} "
        f"cached, {explained.lost_tokens:6} lost  {explained.cause.value}"
    )
    if explained.like:
        line += (
            f" at token {explained.position}: {explained.here!r}, {explained.like} had {explained.before!r}"
        )
    return line
