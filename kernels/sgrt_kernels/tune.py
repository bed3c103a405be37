"""`python -m sgrt_kernels.tune`: find the fastest attention configurations on this GPU and write the table.

    python -m sgrt_kernels.tune --head-dim 128 --group 4 --page 32 --dtype float8_e4m3fn [--out FILE]
    python -m sgrt_kernels.tune --list          the candidates, without a GPU

Serving reads the table (`configurations.TABLE`) and never searches. Candidates that do not compile within the GPU's
shared memory are left out; of the rest, the fastest at decode and the fastest at extend make up the entry.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from sgrt_kernels.configurations import (
    TABLE,
    AttentionConfig,
    ConfigKey,
    default_config,
    read_table,
    write_table,
)
from sgrt_kernels.device import (
    UnsupportedDeviceError,
    finish,
    gpu_properties,
    triton_kernels,
    usable_device,
)
from sgrt_kernels.layout import SEALED_DTYPES, PagedLayer, PageShape, exact_layer, sealed_pages

_DTYPES = {
    str(dtype).removeprefix("torch."): dtype for dtype in (torch.bfloat16, torch.float16, *SEALED_DTYPES)
}
_KV_HEADS, _SEQUENCES, _CONTEXT, _CHUNK = 8, 64, 4096, 2048
Timer = Callable[[Callable[[], object]], float]


def decode_candidates(page: int, base: AttentionConfig) -> Iterator[AttentionConfig]:
    """Ways to cut a decode: tokens of a block, blocks at once, warps, stages."""
    for tokens, slots, warps_per_slot, stages in product((16, 32, 64), (1, 2, 4, 8), (1, 2), (3, 5)):
        if tokens <= page and slots * warps_per_slot in (1, 2, 4, 8):
            yield replace(
                base,
                decode_tokens=tokens,
                decode_slots=slots,
                decode_warps=slots * warps_per_slot,
                decode_stages=stages,
            )


def extend_candidates(base: AttentionConfig) -> Iterator[AttentionConfig]:
    """Ways to cut an extend: rows, tokens of a block, warps, stages."""
    for rows, tokens, warps, stages in product((64, 128), (32, 64, 128), (4, 8), (2, 3, 5)):
        yield replace(base, extend_rows=rows, extend_tokens=tokens, extend_warps=warps, extend_stages=stages)


def fastest(
    candidates: Iterable[AttentionConfig], run: Callable[[AttentionConfig], object], timer: Timer
) -> tuple[AttentionConfig, float]:
    """The candidate that `timer` finds fastest, and its time. One that asks for too many resources is passed over.

    Raises RuntimeError if none can run.
    """
    best: tuple[AttentionConfig, float] | None = None
    for config in candidates:
        try:
            seconds = timer(lambda config=config: run(config))  # type: ignore[misc]  # binds the loop's value
        except RuntimeError as error:
            if not _is_out_of_resources(error):
                raise
            continue
        if best is None or seconds < best[1]:
            best = (config, seconds)
    if best is None:
        raise RuntimeError("tune: no candidate fits this GPU's shared memory and registers")
    return best


def _is_out_of_resources(error: RuntimeError) -> bool:
    return type(error).__name__ == "OutOfResources" or "out of resource" in str(error)


def median_seconds(run: Callable[[], object], device: torch.device) -> float:
    """Median of 20 runs, after 3 to warm up; what a launch costs is the same for all candidates."""
    times = []
    for _ in range(23):
        finish(device)
        started = time.perf_counter()
        run()
        finish(device)
        times.append(time.perf_counter() - started)
    return statistics.median(times[3:])


def tuned(key: ConfigKey, device: torch.device, timer: Timer | None = None) -> AttentionConfig:
    """Search the configuration of `key` on `device`; `timer` defaults to `median_seconds` there."""
    timer = timer or partial(median_seconds, device=device)
    dtype = _DTYPES[key.dtype]
    base = default_config(
        key.arch, key.head_dim, is_sealed=dtype in SEALED_DTYPES, page=key.page, group=key.group
    )
    attend = _Attention(key, dtype, device)
    decoded, decode_s = fastest(decode_candidates(key.page, base), attend.decode, timer)
    extended, extend_s = fastest(extend_candidates(decoded), attend.extend, timer)
    sys.stdout.write(f"{key}: decode {decode_s * 1e6:.0f} us, extend {extend_s * 1e6:.0f} us\n")
    return extended


class _Attention:
    """Random pages, and decode and extend over them."""

    def __init__(self, key: ConfigKey, dtype: torch.dtype, device: torch.device) -> None:
        shape = PageShape(page_tokens=key.page, kv_heads=_KV_HEADS, head_dim=key.head_dim)
        exact_dtype = torch.bfloat16 if dtype in SEALED_DTYPES else dtype
        pages_each = -(-_CONTEXT // key.page)
        pages = _SEQUENCES * pages_each
        exact = exact_layer(pages, shape, dtype=exact_dtype, device=device)
        exact.keys.normal_()
        exact.values.normal_()
        self._layer = exact
        if dtype in SEALED_DTYPES:
            sealed = sealed_pages(pages, shape, dtype=dtype, device=device, transposed_values=True)
            self._layer = PagedLayer(keys=exact.keys, values=exact.values, sealed=sealed)
            every = torch.arange(pages, device=device)
            triton_kernels("page_seal").page_seal(self._layer, sealed, every, every)
        self._table = torch.randperm(pages, device=device).to(torch.int32).view(_SEQUENCES, pages_each)
        self._heads, self._page, self._scale = key.group * _KV_HEADS, key.page, key.head_dim**-0.5
        self._decode_query = torch.randn(_SEQUENCES, self._heads, key.head_dim, device=device).to(exact_dtype)
        self._extend_query = torch.randn(_CHUNK, self._heads, key.head_dim, device=device).to(exact_dtype)

    def decode(self, config: AttentionConfig) -> Tensor:
        """One row for each of the sequences."""
        return self._attend(self._decode_query, _SEQUENCES, 1, config)

    def extend(self, config: AttentionConfig) -> Tensor:
        """The last rows of one sequence."""
        return self._attend(self._extend_query, 1, _CHUNK, config)

    def _attend(self, query: Tensor, sequences: int, rows: int, config: AttentionConfig) -> Tensor:
        device, table = query.device, self._table[:sequences]
        starts = torch.arange(0, sequences * rows + 1, rows, dtype=torch.int32, device=device)
        lengths = torch.full((sequences,), _CONTEXT, dtype=torch.int32, device=device)
        if self._layer.sealed is None:
            result: Tensor = triton_kernels("paged_attention").paged_attention(
                query, self._layer, starts, lengths, table, scale=self._scale, config=config
            )
        else:
            own = table[:, (_CONTEXT - rows) // self._page :].contiguous()
            result = triton_kernels("sealed_attention").sealed_attention(
                query,
                self._layer,
                self._layer.sealed,
                starts,
                lengths,
                table,
                own,
                scale=self._scale,
                config=config,
            )
        return result


def main() -> int:
    """Tune one key and add it to the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--head-dim", type=int, default=128)
    parser.add_argument("--group", type=int, default=4)
    parser.add_argument("--page", type=int, default=32)
    parser.add_argument("--dtype", choices=sorted(_DTYPES), default="float8_e4m3fn")
    parser.add_argument("--out", type=Path, default=TABLE)
    parser.add_argument("--list", action="store_true", help="print the candidates and leave")
    options = parser.parse_args()
    if options.list:
        for config in (
            *decode_candidates(options.page, AttentionConfig()),
            *extend_candidates(AttentionConfig()),
        ):
            sys.stdout.write(f"{config}\n")
        return 0
    try:
        device = usable_device("cuda")
    except UnsupportedDeviceError as error:
        sys.stderr.write(f"tune: configurations are measured, not guessed: {error}\n")
        return 2
    key = ConfigKey(
        arch=gpu_properties(device).arch,
        head_dim=options.head_dim,
        group=options.group,
        page=options.page,
        dtype=options.dtype,
    )
    write_table({**read_table(options.out), key: tuned(key, device)}, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
