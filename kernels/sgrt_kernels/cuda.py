"""All calls into CUDA. Reached through `sgrt_kernels.device` alone, and imported only where there is a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from sgrt_kernels.device import GpuProperties

_WARM_UPS = 2  # kernels are compiled in the first, libraries settle their choices by the second


@cache
def properties(device: torch.device) -> GpuProperties:
    """What kernels need to know of `device`."""
    found = torch.cuda.get_device_properties(device)
    return GpuProperties(
        name=found.name,
        arch=found.major * 10 + found.minor,
        multiprocessors=found.multi_processor_count,
        shared_bytes=int(getattr(found, "shared_memory_per_block_optin", 48 * 1024)),
        total_bytes=found.total_memory,
    )


def free_bytes(device: torch.device) -> int:
    """Memory of `device` that nobody has taken, once torch has given back what it keeps for later."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return int(free)


def finish(device: torch.device) -> None:
    """Wait until `device` has computed what it was asked for."""
    torch.cuda.synchronize(device)


def pinned(size: int | tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Page-locked memory of the host. torch hands it out again only after copies from it are over."""
    return torch.empty(size, dtype=dtype, pin_memory=True)


class CudaGraphs:
    """Records work into CUDA graphs that share one pool of memory: they are replayed one at a time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch

    def capture(self, run: Callable[[], None]) -> Callable[[], None]:
        """Warm up, then record `run`; returns the graph's replay."""
        with torch.cuda.device(self._device):
            ours, others = self._stream, torch.cuda.current_stream(self._device)
            ours.wait_stream(others)
            with torch.cuda.stream(ours):
                for _ in range(_WARM_UPS):
                    run()
            others.wait_stream(ours)
            graph = torch.cuda.CUDAGraph()
            # thread_local: what other threads of the process ask of CUDA meanwhile does not spoil the recording
            with torch.cuda.graph(graph, pool=self._pool, stream=ours, capture_error_mode="thread_local"):
                run()
        replay: Callable[[], None] = graph.replay
        return replay
