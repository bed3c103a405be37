"""Runs the stages in order, within the budget."""

from __future__ import annotations

import sys
import time

import torch
from gpu import arguments

from gpu_parts.bench import Bench
from gpu_parts.ceilings import measure_ceilings
from gpu_parts.correctness import check_attention, check_rows, check_sampling
from gpu_parts.parity import compare_with_cpu
from gpu_parts.steps import time_decode_steps
from gpu_parts.timing import time_decode, time_extend, time_rows, time_sampling, time_tree
from sgrt_kernels.device import KernelBackend, kernels_on
from sgrt_kernels.interpreter import enable

# name, seconds it needs at most, what runs
STAGES = (
    ("ceilings", 20, measure_ceilings),
    ("correct.attention", 90, check_attention),
    ("correct.rows", 30, check_rows),
    ("correct.sampling", 30, check_sampling),
    ("time.decode", 90, time_decode),
    ("time.extend", 40, time_extend),
    ("time.rows", 20, time_rows),
    ("time.sampling", 30, time_sampling),
    ("time.tree", 40, time_tree),
    ("model.steps", 90, time_decode_steps),
    ("model.parity", 40, compare_with_cpu),
)


def main() -> int:
    """Run what was asked for; 1 if a check failed."""
    options = arguments()
    if options.dry:
        enable()
    elif not torch.cuda.is_available():
        print("no CUDA device; `--dry` runs the same stages interpreted", file=sys.stderr)
        return 2
    bench = Bench(
        is_dry=options.dry,
        out=options.out,
        seed=options.seed if options.seed is not None else time.time_ns() % 2**31,
        deadline=time.monotonic() + options.budget,
    )
    with kernels_on(KernelBackend.TRITON):
        for name, seconds, run in STAGES:
            if not options.only or name in options.only:
                bench.stage(name, seconds, run)
    bench.print_table()
    return 1 if bench.has_failed else 0


if __name__ == "__main__":
    sys.exit(main())
