"""Runs the stages in order, within the budget."""

from __future__ import annotations

import sys
import time

import torch
from gpu import arguments

from gpu_parts.bench import Bench
from gpu_parts.ceilings import measure_ceilings
from gpu_parts.compiling import compile_kernels
from gpu_parts.correctness import check_attention, check_rows, check_sampling
from gpu_parts.parity import compare_with_cpu
from gpu_parts.steps import time_decode_steps
from gpu_parts.timing import time_decode, time_extend, time_flex, time_rows, time_sampling, time_tree
from sgrt_kernels.device import KernelBackend, kernels_on
from sgrt_kernels.interpreter import enable

# name, seconds it needs at most, what runs
STAGES = (
    ("compile", 80, compile_kernels),
    ("ceilings", 10, measure_ceilings),
    ("correct.attention", 60, check_attention),
    ("correct.rows", 15, check_rows),
    ("correct.sampling", 15, check_sampling),
    ("time.decode", 50, time_decode),
    ("time.extend", 25, time_extend),
    ("time.rows", 10, time_rows),
    ("time.sampling", 15, time_sampling),
    ("time.tree", 25, time_tree),
    ("model.steps", 75, time_decode_steps),
    ("model.parity", 40, compare_with_cpu),
    ("time.flex", 60, time_flex),
)
_NOTHING_TO_COMPILE = {"compile", "ceilings", "time.flex"}


def main() -> int:
    """Run what was asked for; 1 if a check failed."""
    options = arguments()
    if options.dry:
        enable()
    elif not torch.cuda.is_available():
        print("no CUDA device; `--dry` runs the same stages interpreted", file=sys.stderr)
        return 2
    part, _, parts = options.part.partition("/")
    bench = Bench(
        is_dry=options.dry,
        part=int(part or 0),
        parts=int(parts or 0),
        out=options.out,
        seed=options.seed if options.seed is not None else time.time_ns() % 2**31,
        deadline=time.monotonic() + options.budget,
    )
    with kernels_on(KernelBackend.TRITON):
        for name, seconds, run in STAGES:
            is_wanted = not options.only or name in options.only
            if is_wanted and not (bench.is_compiling and name in _NOTHING_TO_COMPILE):
                bench.stage(name, seconds, run)
    if not bench.is_compiling:
        bench.print_table()
    return 1 if bench.has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
