"""`python -m sgrt_kernels.aot`: print the static performance table of the running Triton as JSON."""

from __future__ import annotations

import json
import sys

import triton

from sgrt_kernels.aot.report import ratio_table


def main() -> None:
    """Print {version: {case: ratio}}."""
    version = ".".join(triton.__version__.split(".")[:2])
    sys.stdout.write(json.dumps({version: ratio_table()}, indent=2) + "\n")


if __name__ == "__main__":
    main()
