"""Compiles the kernels of all stages at the start, many at a time: one after the other they would take minutes.

Each worker is a process of its own that runs its share of the stages' cases once, small where only the kernels matter, and
so leaves in Triton's cache on disk what the stages will ask for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from gpu_parts.bench import Bench

_MOST_WORKERS = 16
_LIMIT_S = 120


def compile_kernels(bench: Bench) -> dict[str, object]:
    """Run the workers; one that fails is told of, the stages then compile what is missing."""
    workers = bench.pick(min(_MOST_WORKERS, os.cpu_count() or 1), 2)
    command = [sys.executable, "-m", "gpu_parts", "--seed", str(bench.seed)]
    if bench.is_dry:
        command += ["--dry", "--only", "time.rows"]
    started = time.monotonic()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    running = [
        subprocess.Popen(
            [*command, "--part", f"{index}/{workers}"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(workers)
    ]
    failures: list[str] = []
    for process in running:
        left = max(1.0, started + _LIMIT_S - time.monotonic())
        try:
            _, errors = process.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
        if process.returncode:
            failures.append(errors[-500:] or f"exit status {process.returncode}")
    bench.add(
        "kernels compiled ahead", "ok", f"{len(failures)} of {workers} workers failed" if failures else ""
    )
    return {"workers": workers, "failures": failures}
