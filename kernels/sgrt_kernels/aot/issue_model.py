"""Whether a memory-bound kernel can reach memory speed at all, counted from its machine code.

    ratio = time to issue the main loop's instructions / time to move its bytes

Above 1 the kernel cannot reach the memory's rate; well below, latency decides. It is a lower bound on the issue time:
every instruction counts one slot, whatever unit it runs on. The yardstick is an H200.
"""

from __future__ import annotations

from dataclasses import dataclass

from sgrt_kernels.aot.machine_code import MachineCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """A GPU's rates."""

    multiprocessors: int
    schedulers: int  # per multiprocessor, one instruction a clock each
    clock_hz: float
    bytes_per_s: float  # copy, bytes read and written


H200 = Yardstick(multiprocessors=132, schedulers=4, clock_hz=1.755e9, bytes_per_s=4.3e12)


def issue_ratio(code: MachineCode, loop_bytes: int, gpu: Yardstick = H200) -> float:
    """Issue time over memory time of one round of the main loop. loop_bytes: what a program moves in it."""
    issue_s = code.warps * len(code.loop) / (gpu.multiprocessors * gpu.schedulers * gpu.clock_hz)
    return issue_s / (loop_bytes / gpu.bytes_per_s)
