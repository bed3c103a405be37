"""What this machine can do at best: everything else is told as a share of it."""

from __future__ import annotations

import torch
import triton

from gpu_parts.bench import Bench


def measure_ceilings(bench: Bench) -> dict[str, object]:
    """The rate of a large copy (bytes read and written) and of a large bfloat16 matrix product."""
    size = bench.pick(2 << 30, 1 << 20)
    source = torch.empty(size, dtype=torch.uint8, device=bench.device)
    target = torch.empty_like(source)
    bench.copy_bytes_per_s = 2 * size / bench.seconds(lambda _: target.copy_(source))
    width = bench.pick(8192, 64)
    left, right = (
        bench.normal(width, width, dtype=torch.bfloat16),
        bench.normal(width, width, dtype=torch.bfloat16),
    )
    bench.matmul_flops = 2 * width**3 / bench.seconds(lambda _: left @ right)
    bench.add("copy", f"{bench.copy_bytes_per_s / 1e12:.2f} TB/s")
    bench.add("bfloat16 matmul", f"{bench.matmul_flops / 1e12:.0f} TFLOP/s")
    name = "interpreter" if bench.is_dry else torch.cuda.get_device_name()
    return {
        "device": name,
        "triton": triton.__version__,
        "copy_bytes_per_s": bench.copy_bytes_per_s,
        "matmul_flops": bench.matmul_flops,
    }
