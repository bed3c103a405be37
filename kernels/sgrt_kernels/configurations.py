"""Tile sizes, warps and stages of the attention kernels: a table that `sgrt_kernels.tune` writes, never a search at run time."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import torch

from sgrt_kernels.device import gpu_properties
from sgrt_kernels.layout import SEALED_DTYPES

TABLE = Path(__file__).with_name("tuned.json")
BATCH_INVARIANT_SPLITS = 16
MAX_SPLITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionConfig:
    """How the attention kernels are cut."""

    decode_tokens: int = 32  # of the context, in a slot's block
    decode_slots: int = 4  # blocks a program reads at once, one warp each
    decode_warps: int = 4
    decode_stages: int = 3
    extend_rows: int = 128  # (query, head of the group) rows of a tile
    extend_tokens: int = 64
    extend_warps: int = 8
    extend_stages: int = 3
    tree_rows: int = 64  # (query, head of the group) rows of an item of a tree, at most
    tree_tokens: int = 64
    tree_warps: int = 4
    tree_stages: int = 3
    # decode splits the context until there are as many; 4 per multiprocessor of an H200
    target_programs: int = 528
    is_batch_invariant: bool = False  # always split alike, so that a row's bits do not depend on its batch


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """What a configuration was tuned for."""

    arch: int  # compute capability, 90 for 9.0
    head_dim: int
    group: int  # query heads per kv head
    page: int
    dtype: str  # of the pages, "bfloat16"


# Interpreted programs cost by the operation, not by the element: few programs, small tiles that still cross borders.
INTERPRETED = AttentionConfig(
    decode_tokens=32,
    decode_slots=2,
    extend_rows=32,
    extend_tokens=32,
    target_programs=1,
    decode_stages=1,
    extend_stages=1,
    tree_tokens=32,
    tree_stages=1,
)


def attention_config(
    device: torch.device, *, head_dim: int, group: int, page: int, dtype: torch.dtype
) -> AttentionConfig:
    """The tuned configuration for these shapes on `device`, or the default where none was tuned."""
    if device.type == "cpu":
        return INTERPRETED
    arch = gpu_properties(device).arch
    key = ConfigKey(
        arch=arch,
        head_dim=head_dim,
        group=group,
        page=page,
        dtype=str(dtype).removeprefix("torch."),
    )
    return _table().get(key) or default_config(
        arch, head_dim, is_sealed=dtype in SEALED_DTYPES, page=page, group=group
    )


def default_config(
    arch: int, head_dim: int, *, is_sealed: bool, page: int = 32, group: int = 4
) -> AttentionConfig:
    """A configuration whose kernels compile without spills within the shared memory of `arch`.

    What decides is the accumulator and, over sealed pages, the keys that are dequantized in registers: wide heads
    spread a slot over two warps, as do wide groups, and tensor cores before sm_90, which take their operands from
    registers, get smaller tiles of rows. Blocks of 16 sealed tokens are copied ahead of their use only with few slots.
    """
    config = _config_of_heads(arch, head_dim, is_sealed=is_sealed)
    if is_sealed and page <= 16:
        return replace(config, decode_slots=2, decode_warps=config.decode_warps // 2, tree_warps=8)
    if is_sealed and group > 8:
        return replace(config, decode_warps=8, decode_stages=3 if arch >= 90 else 2)
    return config


def _config_of_heads(arch: int, head_dim: int, *, is_sealed: bool) -> AttentionConfig:
    if head_dim > 128:
        return AttentionConfig(
            decode_tokens=32 if is_sealed else 16,
            decode_warps=8,
            extend_rows=32 if is_sealed and arch < 90 else 64,
            extend_tokens=16 if is_sealed and 90 <= arch < 100 else 32,
            extend_warps=8,
            tree_tokens=32,
            tree_warps=8,
        )
    if is_sealed and arch < 90:
        return AttentionConfig(extend_rows=32, extend_tokens=32, extend_warps=4)
    if is_sealed and arch >= 100 and head_dim <= 64:
        return AttentionConfig(
            extend_rows=64, extend_warps=4
        )  # eight warps would have 128 registers a thread
    return AttentionConfig()


def tree_rows_per_item(config: AttentionConfig, group: int) -> int:
    """How many sequences an item of a tree serves, whose kv heads have `group` query heads each."""
    return max(1, config.tree_rows // group)


def split_count(config: AttentionConfig, programs: int, max_context: int) -> int:
    """Into how many parts decode cuts each context, a power of two.

    programs: (sequence, kv head) pairs; max_context: tokens that the page table has room for. With
    `is_batch_invariant` the number is fixed, so that every row's sums run in the same order in every batch.
    """
    if config.is_batch_invariant:
        return BATCH_INVARIANT_SPLITS
    wanted = -(-config.target_programs // max(programs, 1))
    useful = -(-max_context // (config.decode_tokens * config.decode_slots))
    return 1 << (min(wanted, useful, MAX_SPLITS) - 1).bit_length()


def write_table(configs: dict[ConfigKey, AttentionConfig], path: Path = TABLE) -> None:
    """Write `configs` as a readable table, one entry a line, in a fixed order."""
    ordered = sorted(configs.items(), key=lambda item: tuple(asdict(item[0]).values()))
    lines = [json.dumps({"key": asdict(key), "config": asdict(config)}) for key, config in ordered]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def read_table(path: Path = TABLE) -> dict[ConfigKey, AttentionConfig]:
    """The table at `path`; empty where there is none."""
    if not path.exists():
        return {}
    entries = json.loads(path.read_text(encoding="utf-8"))
    return {ConfigKey(**entry["key"]): AttentionConfig(**entry["config"]) for entry in entries}


@cache
def _table() -> dict[ConfigKey, AttentionConfig]:
    return read_table()
