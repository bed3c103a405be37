"""Checks and times everything that runs on a GPU, in one command.

    python benchmarks/gpu.py --out DIR [--budget 480] [--only STAGE ...]
    python benchmarks/gpu.py --dry          tiny sizes in Triton's interpreter, on any machine

Stages, in the order of what they tell: all kernels are compiled, by a process for each core -> ceilings of this
machine (copy, matmul) -> correctness of every op against
float64 -> decode attention as a share of the copy rate, beside torch's attention -> the other kernels -> tree against
flat attention -> decode steps of an 8B-shaped model in CUDA graphs -> small models on the GPU against the CPU ->
torch's flex_attention, which compiles for long. Each
writes gpu.json when it is done; the table comes last; the exit status is not 0 if a check failed. Needs torch, triton
and numpy alone. A dry run proves that the script works; its times mean nothing and are not printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("."), help="where gpu.json goes")
    parser.add_argument(
        "--budget", type=float, default=480.0, help="seconds; stages that would not fit are skipped"
    )
    parser.add_argument("--dry", action="store_true", help="tiny sizes, interpreted, no GPU")
    parser.add_argument("--only", nargs="*", default=[], help="run these stages alone")
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)  # K/N: compile every Nth case from K on
    parser.add_argument("--seed", type=int, help="of all inputs; default: a fresh one")
    return parser.parse_args()


def main() -> int:
    """Start the stages in a process whose environment Triton reads as it should."""
    options = arguments()
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        [*(str(ROOT / folder) for folder in (".", "kernels", "benchmarks")), *filter(None, sys.path)]
    )
    environment["TRITON_INTERPRET"] = "1" if options.dry else "0"
    environment.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    return subprocess.run(
        [sys.executable, "-m", "gpu_parts", *sys.argv[1:]], env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
