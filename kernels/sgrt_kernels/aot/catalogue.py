"""Launches of every kernel at the shapes models use, to be compiled for GPUs that are not there."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton

from sgrt_kernels.aot.compiler import Kernel, Launch, meta
from sgrt_kernels.attention_tiles import merge_splits
from sgrt_kernels.configurations import AttentionConfig, tree_rows_per_item
from sgrt_kernels.ops.embedding.triton import embedding_kernel
from sgrt_kernels.ops.gated_activation.triton import gated_activation_kernel
from sgrt_kernels.ops.kv_write.triton import kv_write_kernel
from sgrt_kernels.ops.masked_sample.triton import bias_kernel, masked_sample_kernel, penalty_kernel
from sgrt_kernels.ops.page_copy.triton import page_copy_kernel
from sgrt_kernels.ops.page_seal.triton import page_seal_kernel
from sgrt_kernels.ops.paged_attention.triton import decode_kernel, extend_kernel
from sgrt_kernels.ops.rms_norm.triton import rms_norm_kernel
from sgrt_kernels.ops.rope.triton import rope_kernel
from sgrt_kernels.ops.sealed_attention.triton import sealed_decode_kernel, sealed_extend_kernel
from sgrt_kernels.ops.tree_attention.triton import (
    item_tile,
    sealed_tree_item_kernel,
    tree_item_kernel,
    tree_merge_kernel,
)
from sgrt_kernels.sealed_codes import CodeKind

_BF16, _F32, _I32, _I64, _U8, _I8 = (
    torch.bfloat16,
    torch.float32,
    torch.int32,
    torch.int64,
    torch.uint8,
    torch.int8,
)
_CODE_TYPES: dict[CodeKind, torch.dtype] = {"int8": _I8, "fp8": torch.float8_e4m3fn, "soft_fp8": _U8}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """Sizes of an attention launch. What a kernel is compiled for depends on these and on the configuration alone."""

    group: int = 4
    kv_heads: int = 8
    head_dim: int = 128
    page: int = 32
    splits: int = 8
    window: int = 0
    is_rest: bool = False  # whether decode reads what a tree has left
    soft_cap: float = 0.0
    dtype: torch.dtype = torch.bfloat16
    code: CodeKind = "fp8"

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.group * self.kv_heads

    @property
    def common(self) -> dict[str, object]:
        """Constants that all attention kernels take."""
        return {
            "GROUP": self.group,
            "HEAD_DIM": self.head_dim,
            "BLOCK_D": triton.next_power_of_2(self.head_dim),
            "PAGE": self.page,
            "SOFT_CAP": self.soft_cap,
        }

    @property
    def columns(self) -> int:
        """Query heads of a decode tile, padding included."""
        return max(8, int(triton.next_power_of_2(self.group)))


TABLE_COLUMNS = 520  # of the page table; no other argument is this number
_SEQUENCES, _TOKENS, _PAGES = 64, 512, 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pages:
    """What decode and extend kernels take between query and lengths, and behind the scale."""

    tensors: tuple[torch.Tensor, ...]
    strides: tuple[int, ...]
    constants: dict[str, object]


def decode(shape: AttentionShape, config: AttentionConfig) -> tuple[Launch, int]:
    """Decode over exact pages, and the bytes that a round of its main loop moves."""
    tokens = config.decode_slots * min(config.decode_tokens, shape.page)
    launch = _decode("decode", decode_kernel, shape, config, _exact(shape))
    return launch, tokens * 2 * shape.head_dim * shape.dtype.itemsize


def sealed_decode(shape: AttentionShape, config: AttentionConfig) -> tuple[Launch, int]:
    """Decode over sealed pages, and the bytes that a round of its main loop moves, scales included."""
    tokens = config.decode_slots * min(config.decode_tokens, shape.page)
    launch = _decode("sealed_decode", sealed_decode_kernel, shape, config, _sealed(shape, own_pages=1))
    return launch, tokens * (2 * shape.head_dim + 2) + tokens * (2 * shape.head_dim + 8) // shape.page


def extend(shape: AttentionShape, config: AttentionConfig) -> Launch:
    """Ragged chunks over exact pages."""
    return _extend("extend", extend_kernel, shape, config, _exact(shape), config.extend_tokens, shape.dtype)


def sealed_extend(shape: AttentionShape, config: AttentionConfig) -> Launch:
    """Ragged chunks over sealed pages."""
    block = min(config.extend_tokens, shape.page)
    pages = _sealed(shape, own_pages=17)
    return _extend("sealed_extend", sealed_extend_kernel, shape, config, pages, block, torch.float16)


def _decode(
    name: str, kernel: Kernel, shape: AttentionShape, config: AttentionConfig, pages: _Pages
) -> Launch:
    return Launch(
        name=name,
        kernel=kernel,
        arguments=(
            _query(_SEQUENCES, shape),
            *pages.tensors,
            meta(_SEQUENCES, dtype=_I32),
            meta(_SEQUENCES, dtype=_I32),
            *_partials(shape),
            0.088,
            shape.heads * shape.head_dim,
            *pages.strides,
        ),
        options={
            **shape.common,
            **pages.constants,
            "WINDOW": shape.window,
            "IS_REST": shape.is_rest,
            "BLOCK_H": shape.columns,
            "BLOCK_N": min(config.decode_tokens, shape.page),
            "SLOTS": config.decode_slots,
            "SPLITS": shape.splits,
            "STAGES": config.decode_stages,
            "num_warps": config.decode_warps,
        },
    )


def _extend(
    name: str,
    kernel: Kernel,
    shape: AttentionShape,
    config: AttentionConfig,
    pages: _Pages,
    block: int,
    query_dtype: torch.dtype,
) -> Launch:
    return Launch(
        name=name,
        kernel=kernel,
        arguments=(
            meta(_TOKENS, shape.heads, shape.head_dim, dtype=query_dtype),
            *pages.tensors,
            meta(_SEQUENCES + 1, dtype=_I32),
            meta(_SEQUENCES, dtype=_I32),
            _query(_TOKENS, shape),
            0.088,
            3,
            shape.heads * shape.head_dim,
            *pages.strides,
        ),
        options={
            **shape.common,
            **pages.constants,
            "WINDOW": shape.window,
            "BLOCK_M": config.extend_rows,
            "BLOCK_N": block,
            "STAGES": config.extend_stages,
            "num_warps": config.extend_warps,
        },
    )


def tree_item(shape: AttentionShape, config: AttentionConfig) -> Launch:
    """Items of a tree over exact pages."""
    return _tree_item(
        "tree_item", tree_item_kernel, shape, config, _exact(shape), config.tree_tokens, shape.dtype
    )


def sealed_tree_item(shape: AttentionShape, config: AttentionConfig) -> Launch:
    """Items of a tree over sealed pages."""
    pages, block = _sealed(shape, own_pages=1), min(config.tree_tokens, shape.page)
    return _tree_item("sealed_tree_item", sealed_tree_item_kernel, shape, config, pages, block, torch.float16)


def _tree_item(
    name: str,
    kernel: Kernel,
    shape: AttentionShape,
    config: AttentionConfig,
    pages: _Pages,
    block: int,
    query_dtype: torch.dtype,
) -> Launch:
    rows, slots = tree_rows_per_item(config, shape.group), 64
    return Launch(
        name=name,
        kernel=kernel,
        arguments=(
            meta(_SEQUENCES, shape.heads, shape.head_dim, dtype=query_dtype),
            *pages.tensors,
            meta(slots, 3, dtype=_I32),
            meta(slots, rows, dtype=_I32),
            meta(slots * rows, shape.heads, shape.head_dim, dtype=_F32),
            meta(slots * rows, shape.heads, dtype=_F32),
            0.088,
            shape.heads * shape.head_dim,
            *pages.strides,
        ),
        options={
            **shape.common,
            **pages.constants,
            "ROWS": rows,
            "BLOCK_M": item_tile(rows, shape.group),
            "BLOCK_N": block,
            "STAGES": config.tree_stages,
            "num_warps": config.tree_warps,
        },
    )


def page_seal(shape: AttentionShape) -> Launch:
    """Sealing pages."""
    seals = meta(16, dtype=_I64)
    return Launch(
        name="page_seal",
        kernel=page_seal_kernel,
        arguments=(
            *_exact_pages(shape),
            seals,
            seals,
            meta(1, dtype=_I32),
            *_sealed_pages(shape),
            *_sealed_strides(shape),
        ),
        options={
            "HEAD_DIM": shape.head_dim,
            "BLOCK_D": triton.next_power_of_2(shape.head_dim),
            "PAGE": shape.page,
            "CODE": shape.code,
            "HAS_COUNT": True,
            "num_warps": 4,
        },
    )


def row_kernels(dtype: torch.dtype = _BF16) -> tuple[Launch, ...]:
    """Kernels that are not attention, at the sizes of an 8B Llama."""
    rows, ids = meta(_TOKENS, 4096, dtype=dtype), meta(_TOKENS, dtype=_I64)
    angles = meta(_TOKENS, 64, dtype=_F32)
    norm = (rows, rows, meta(4096, dtype=dtype), rows, rows, meta(_TOKENS, dtype=_F32), 4096, 4096, 1e-5)
    row_block: dict[str, object] = {"BLOCK": 1024, "num_warps": 4}
    query, keys = meta(_TOKENS, 32, 128, dtype=dtype), meta(_TOKENS, 8, 128, dtype=dtype)
    pages = meta(_PAGES, 32, 8, 128, dtype=dtype)
    float8_rows = (*norm[:3], meta(_TOKENS, 4096, dtype=torch.float8_e4m3fn), *norm[4:])
    return (
        Launch(
            name="rms_norm",
            kernel=rms_norm_kernel,
            arguments=norm,
            options={"HEADS": 1, "BLOCK": 4096, "HAS_RESIDUAL": True, "QUANTIZES": False, "num_warps": 8},
        ),
        Launch(
            name="rms_norm_quantized",
            kernel=rms_norm_kernel,
            arguments=float8_rows,
            options={"HEADS": 1, "BLOCK": 4096, "HAS_RESIDUAL": True, "QUANTIZES": True, "num_warps": 8},
        ),
        Launch(
            name="gated_activation",
            kernel=gated_activation_kernel,
            arguments=(meta(_TOKENS, 28672, dtype=dtype), meta(_TOKENS, 14336, dtype=dtype), 14336, 28672),
            options={**row_block, "IS_SILU": True},
        ),
        Launch(
            name="embedding",
            kernel=embedding_kernel,
            arguments=(ids, meta(128_256, 4096, dtype=dtype), rows, 4096, 4096),
            options=row_block,
        ),
        Launch(
            name="rope",
            kernel=rope_kernel,
            arguments=(query, angles, angles, query, 4096),
            options={"HEADS": 32, "BLOCK_H": 32, "HALF": 64, "BLOCK": 64, "num_warps": 4},
        ),
        Launch(
            name="rope_kv_write",
            kernel=kv_write_kernel,
            arguments=(query, query, keys, keys, angles, angles, pages, pages, ids, 6144, 6144, 6144),
            options={
                "HEADS": 32,
                "BLOCK_H": 32,
                "KV_HEADS": 8,
                "BLOCK_KV": 8,
                "HALF": 64,
                "BLOCK": 64,
                "ROTATES": True,
                "num_warps": 4,
            },
        ),
        Launch(
            name="page_copy",
            kernel=page_copy_kernel,
            arguments=(pages, pages, ids, ids, ids, 32_768, 1024),
            options=row_block,
        ),
    )


def merges(shape: AttentionShape) -> tuple[Launch, ...]:
    """What puts split and tree attention together."""
    out = meta(_SEQUENCES, shape.heads, shape.head_dim, dtype=shape.dtype)
    head = {"HEAD_DIM": shape.head_dim, "BLOCK_D": triton.next_power_of_2(shape.head_dim), "num_warps": 1}
    partials = (meta(900, shape.heads, shape.head_dim, dtype=_F32), meta(900, shape.heads, dtype=_F32))
    return (
        Launch(
            name="merge_splits",
            kernel=merge_splits,
            arguments=(*_partials(shape), out),
            options={**head, "SPLITS": shape.splits},
        ),
        Launch(
            name="tree_merge",
            kernel=tree_merge_kernel,
            arguments=(*partials, meta(65, dtype=_I32), meta(900, dtype=_I32), *_partials(shape), out),
            options={**head, "SPLITS": shape.splits},
        ),
    )


def sampling() -> tuple[Launch, ...]:
    """The sampler with every filter, and the adjustments before it."""
    vocabulary, words = 128_256, 4008
    logits, masks = meta(_SEQUENCES, vocabulary, dtype=_F32), meta(_SEQUENCES, words, dtype=_I32)
    floats, ints = meta(_SEQUENCES, dtype=_F32), meta(_SEQUENCES, dtype=_I64)
    entries, values = meta(1000, dtype=_I64), meta(1000, dtype=_F32)
    flags = dict.fromkeys(("HAS_MASK", "SAMPLES", "HAS_TOP_K", "HAS_TOP_P", "HAS_MIN_P"), True)
    return (
        Launch(
            name="masked_sample",
            kernel=masked_sample_kernel,
            arguments=(
                logits, masks, floats, ints, floats, floats, ints, ints, ints, vocabulary, vocabulary, words,
            ),
            options={**flags, "BLOCK": 2048, "num_warps": 8},
        ),
        Launch(
            name="penalties",
            kernel=penalty_kernel,
            arguments=(logits, entries, entries, values, floats, floats, floats, 1000, vocabulary),
            options={"BLOCK": 256},
        ),
        Launch(
            name="bias",
            kernel=bias_kernel,
            arguments=(logits, entries, entries, values, 1000, vocabulary),
            options={"BLOCK": 256},
        ),
    )  # fmt: skip


def _query(rows: int, shape: AttentionShape) -> torch.Tensor:
    return meta(rows, shape.heads, shape.head_dim, dtype=shape.dtype)


def _exact(shape: AttentionShape) -> _Pages:
    return _Pages(
        tensors=(*_exact_pages(shape), meta(_SEQUENCES, TABLE_COLUMNS, dtype=_I32)),
        strides=(TABLE_COLUMNS, *_exact_strides(shape), *_exact_strides(shape)),
        constants={},
    )


def _sealed(shape: AttentionShape, *, own_pages: int) -> _Pages:
    tables = (meta(_SEQUENCES, TABLE_COLUMNS, dtype=_I32), meta(_SEQUENCES, own_pages, dtype=_I32))
    return _Pages(
        tensors=(*_exact_pages(shape), *_sealed_pages(shape), *tables),
        strides=(TABLE_COLUMNS, own_pages, *_sealed_strides(shape)),
        constants={"CODE": shape.code, "PTX": True},
    )


def _exact_pages(shape: AttentionShape) -> tuple[torch.Tensor, torch.Tensor]:
    pages = meta(_PAGES, shape.page, shape.kv_heads, shape.head_dim, dtype=shape.dtype)
    return pages, pages


def _exact_strides(shape: AttentionShape) -> tuple[int, int, int]:
    return shape.page * shape.kv_heads * shape.head_dim, shape.kv_heads * shape.head_dim, shape.head_dim


def _sealed_pages(shape: AttentionShape) -> tuple[torch.Tensor, ...]:
    code = _CODE_TYPES[shape.code]
    pages = meta(_PAGES, shape.page, shape.kv_heads, shape.head_dim, dtype=code)
    heads = meta(_PAGES, shape.kv_heads, dtype=_F32)
    return (
        pages,
        meta(_PAGES, shape.kv_heads, shape.head_dim, dtype=_U8),
        heads,
        meta(_PAGES, shape.kv_heads, shape.head_dim, dtype=_I8),
        heads,
        pages,
        meta(_PAGES, shape.page, shape.kv_heads, dtype=_BF16),
    )


def _sealed_strides(shape: AttentionShape) -> tuple[int, ...]:
    """Of sealed_pages(..., transposed_values=True)."""
    page, head = shape.kv_heads * shape.page * shape.head_dim, shape.page * shape.head_dim
    return (page, shape.head_dim, head, page, 1, head, shape.page, shape.kv_heads * shape.page, 1, shape.page)


def _partials(shape: AttentionShape) -> tuple[torch.Tensor, torch.Tensor]:
    return (
        meta(_SEQUENCES, shape.heads, shape.splits, shape.head_dim, dtype=_F32),
        meta(_SEQUENCES, shape.heads, shape.splits, dtype=_F32),
    )
