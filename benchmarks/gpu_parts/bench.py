"""What stages share: random inputs, timing, the table, and where it is written."""

from __future__ import annotations

import importlib
import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import torch
from torch import Tensor

Size = TypeVar("Size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table."""

    case: str
    result: str
    note: str = ""


@dataclass(slots=True, kw_only=True)
class Bench:
    """One run: its device, its random numbers, its ceilings and what it found."""

    is_dry: bool
    out: Path
    seed: int
    deadline: float
    part: int = 0  # of `parts` processes that only compile, each a share of the cases
    parts: int = 0  # 0: everything is run and measured
    copy_bytes_per_s: float = 1.0
    matmul_flops: float = 1.0
    rows: list[Row] = field(default_factory=list)
    results: dict[str, dict[str, object]] = field(default_factory=dict)
    has_failed: bool = False
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.generator = torch.Generator(self.device).manual_seed(self.seed)

    @property
    def device(self) -> torch.device:
        """Where tensors lie."""
        return torch.device("cpu" if self.is_dry else "cuda")

    def pick(self, real: Size, dry: Size) -> Size:
        """A size: for the GPU, or for a dry run."""
        return dry if self.is_dry else real

    @property
    def is_compiling(self) -> bool:
        """Whether cases are run for the kernels that they leave in Triton's cache alone."""
        return self.parts > 0

    def cases(self, cases: Sequence[Size]) -> Sequence[Size]:
        """Those to run here: all, or the share of a process that compiles."""
        return cases[self.part :: self.parts] if self.is_compiling else cases

    def kernels(self, op: str) -> ModuleType:
        """The Triton module of an op, whatever the device."""
        return importlib.import_module(f"sgrt_kernels.ops.{op}.triton")

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Standard normal numbers."""
        return torch.randn(shape, device=self.device, generator=self.generator).to(dtype)

    def seconds(self, run: Callable[[int], object], inputs: int = 1) -> float:
        """Median time of `run(i)` in a CUDA graph that goes through `inputs` inputs, so that caches stay cold."""
        if self.is_dry or self.is_compiling:
            started = time.perf_counter()
            run(0)
            return time.perf_counter() - started
        for index in range(inputs):
            run(index)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for index in range(inputs):
                run(index)
        times: list[float] = []
        for _ in range(33):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]  # torch
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3 / inputs)
        return sorted(times[3:])[15]

    def add(self, case: str, result: str, note: str = "") -> None:
        """A line of the table."""
        self.rows.append(Row(case=case, result=result, note=note))

    def add_bandwidth(self, case: str, seconds: float, num_bytes: float) -> float:
        """A memory-bound line: its time, and its rate as a share of the measured copy. Returns the share."""
        share = num_bytes / seconds / self.copy_bytes_per_s
        self.add(case, f"{seconds * 1e6:.0f} us", f"{share:.0%} of copy")
        return share

    def check(self, case: str, error: float, limit: float) -> None:
        """A line of a check; raises AssertionError where it fails (NaN fails)."""
        is_within = error <= limit or self.is_compiling
        self.add(case, f"error {error:.1e}", f"limit {limit:.0e}" if is_within else f"ABOVE {limit:.0e}")
        assert is_within, f"{case}: error {error:.3e} above {limit:.0e}"

    def stage(self, name: str, seconds: float, run: Callable[[Bench], dict[str, object]]) -> None:
        """Run a stage if the budget allows, and write what there is so far."""
        left = self.deadline - time.monotonic()
        started = time.monotonic()
        if left < seconds:
            self.results[name] = {"skipped": f"{left:.0f} s left, needs up to {seconds} s"}
            self.add(name, "SKIPPED", f"{left:.0f} s left")
        else:
            try:
                self.results[name] = run(self)
            except Exception as error:  # noqa: BLE001  # a stage must not cost the others their time on the GPU
                self.has_failed = True
                self.results[name] = {"error": repr(error)[:500], "traceback": traceback.format_exc()[-2000:]}
                self.add(name, "FAILED", repr(error)[:120])
        if self.is_compiling:
            return
        spent = time.monotonic() - started
        self.results[name] |= {"stage_s": round(spent, 1), "limit_s": seconds}
        print(f"{name}: {spent:.1f} s", flush=True)
        header = {"torch": torch.__version__, "seed": self.seed, "is_dry": self.is_dry}
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "gpu.json").write_text(json.dumps({**header, **self.results}, indent=1) + "\n")

    def print_table(self) -> None:
        """All lines; a dry run's times are left out, they are an interpreter's."""
        print(f"\n{'case':52} {'result':>16}  note")
        for row in self.rows:
            is_timed = self.is_dry and not row.result.startswith(("error", "FAILED", "SKIPPED", "ok"))
            print(f"{row.case:52} {'(dry)' if is_timed else row.result:>16}  {'' if is_timed else row.note}")


def relative_error(result: Tensor, expected: Tensor) -> float:
    """||result - expected|| / ||expected|| in float64; NaN counts as infinite."""
    error = float((result.double() - expected.double()).norm() / expected.double().norm())
    return error if error == error else float("inf")
