"""`python -m sgrt_kernels.tune`: find the fastest attention configurations on this GPU and write the table.

    python -m sgrt_kernels.tune --head-dim 128 --group 4 --page 32 --dtype float8_e4m3fn [--out FILE]
    python -m sgrt_kernels.tune --list          the candidates, without a GPU

Serving reads the table (`configurations.TABLE`) and never searches. Candidates that do not compile within the GPU's
shared memory are left out; of the rest, those that are fastest at decode, at extend and over a tree make up the entry.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
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
    tree_rows_per_item,
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
from sgrt_kernels.ops.tree_attention import TreePlan, plan_tree

_DTYPES = {
    str(dtype).removeprefix("torch."): dtype for dtype in (torch.bfloat16, torch.float16, *SEALED_DTYPES)
}
Timer = Callable[[Callable[[], object]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is timed: sequences that decode, half of whose context is shared over a tree, and the last rows of one."""

    kv_heads: int = 8
    sequences: int = 64
    context: int = 4096
    chunk: int = 2048


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


def tree_candidates(base: AttentionConfig) -> Iterator[AttentionConfig]:
    """Ways to cut the items of a tree: rows, tokens of a block, warps, stages."""
    for rows, tokens, warps, stages in product((64, 128), (32, 64), (4, 8), (2, 3, 5)):
        yield replace(base, tree_rows=rows, tree_tokens=tokens, tree_warps=warps, tree_stages=stages)


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


def tuned(
    key: ConfigKey, device: torch.device, timer: Timer | None = None, load: Load | None = None
) -> AttentionConfig:
    """Search the configuration of `key` on `device`; `timer` defaults to `median_seconds` there."""
    timer = timer or partial(median_seconds, device=device)
    dtype = _DTYPES[key.dtype]
    base = default_config(
        key.arch, key.head_dim, is_sealed=dtype in SEALED_DTYPES, page=key.page, group=key.group
    )
    attend = _Attention(key, dtype, device, load or Load())
    decoded, decode_s = fastest(decode_candidates(key.page, base), attend.decode, timer)
    extended, extend_s = fastest(extend_candidates(decoded), attend.extend, timer)
    branched, tree_s = fastest(tree_candidates(extended), attend.tree, timer)
    times = (
        f"{name} {seconds * 1e6:.0f} us"
        for name, seconds in zip(("decode", "extend", "tree"), (decode_s, extend_s, tree_s), strict=True)
    )
    sys.stdout.write(f"{key}: {', '.join(times)}\n")
    return branched


class _Attention:
    """Random pages, and decode, extend and trees over them."""

    def __init__(self, key: ConfigKey, dtype: torch.dtype, device: torch.device, load: Load) -> None:
        self._load = load
        shape = PageShape(page_tokens=key.page, kv_heads=load.kv_heads, head_dim=key.head_dim)
        exact_dtype = torch.bfloat16 if dtype in SEALED_DTYPES else dtype
        pages_each = -(-load.context // key.page)
        pages = load.sequences * pages_each
        exact = exact_layer(pages, shape, dtype=exact_dtype, device=device)
        exact.keys.normal_()
        exact.values.normal_()
        self._layer = exact
        if dtype in SEALED_DTYPES:
            sealed = sealed_pages(pages, shape, dtype=dtype, device=device, transposed_values=True)
            self._layer = PagedLayer(keys=exact.keys, values=exact.values, sealed=sealed)
            every = torch.arange(pages, device=device)
            triton_kernels("page_seal").page_seal(self._layer, sealed, every, every)
        self._table = torch.randperm(pages, device=device).to(torch.int32).view(load.sequences, pages_each)
        self._forks = self._table.clone()
        self._forks[:, : pages_each // 2] = self._table[0, : pages_each // 2]
        self._group, self._page, self._scale = key.group, key.page, key.head_dim**-0.5
        heads = key.group * load.kv_heads
        self._decode_query = torch.randn(load.sequences, heads, key.head_dim, device=device).to(exact_dtype)
        self._extend_query = torch.randn(load.chunk, heads, key.head_dim, device=device).to(exact_dtype)
        self._trees: dict[int, TreePlan] = {}  # by rows of an item

    def decode(self, config: AttentionConfig) -> Tensor:
        """One row for each of the sequences."""
        return self._attend(self._decode_query, self._load.sequences, 1, config)

    def extend(self, config: AttentionConfig) -> Tensor:
        """The last rows of one sequence."""
        return self._attend(self._extend_query, 1, self._load.chunk, config)

    def tree(self, config: AttentionConfig) -> Tensor:
        """One row for each of the sequences, the first half of whose contexts is the same."""
        own = None if self._layer.sealed is None else self._forks[:, -1:].contiguous()
        result: Tensor = triton_kernels("tree_attention").tree_attention(
            self._decode_query,
            self._layer,
            self._tree(tree_rows_per_item(config, self._group)),
            self._lengths(self._load.sequences),
            self._forks,
            own,
            scale=self._scale,
            config=config,
        )
        return result

    def _tree(self, rows_per_item: int) -> TreePlan:
        if rows_per_item not in self._trees:
            full = (self._load.context - 1) // self._page
            planned = plan_tree(
                self._forks.tolist(),
                [full] * self._load.sequences,
                page_tokens=self._page,
                rows_per_item=rows_per_item,
            )
            self._trees[rows_per_item] = TreePlan.of(planned, self._forks.device)
        return self._trees[rows_per_item]

    def _lengths(self, sequences: int) -> Tensor:
        return torch.full((sequences,), self._load.context, dtype=torch.int32, device=self._table.device)

    def _attend(self, query: Tensor, sequences: int, rows: int, config: AttentionConfig) -> Tensor:
        device, table = query.device, self._table[:sequences]
        starts = torch.arange(0, sequences * rows + 1, rows, dtype=torch.int32, device=device)
        lengths = self._lengths(sequences)
        if self._layer.sealed is None:
            result: Tensor = triton_kernels("paged_attention").paged_attention(
                query, self._layer, starts, lengths, table, scale=self._scale, config=config
            )
        else:
            own = table[:, (self._load.context - rows) // self._page :].contiguous()
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
            *tree_candidates(AttentionConfig()),
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
