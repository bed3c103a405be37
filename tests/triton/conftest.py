"""Kernels on a CPU, in processes of their own: `TRITON_INTERPRET` is read when a kernel is decorated.

`test_triton_suites.py` starts a fresh Python for each of the suites in `interpreted` and `compiled`; without the
variable it sets they are not collected.
"""

from __future__ import annotations

import os

SUITE = os.environ.get("SGRT_TRITON_SUITE")
collect_ignore = [name for name in ("interpreted", "compiled") if name != SUITE]

if SUITE == "interpreted":  # only then: nothing else here imports Triton
    from sgrt_kernels.interpreter import enable

    enable(sanitize=os.environ.get("SGRT_TRITON_SANITIZE") == "1")
