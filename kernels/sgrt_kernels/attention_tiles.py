"""Pieces that the Triton kernels over pages share. Scores live in the base-2 domain: exp2 is one instruction.

A split of the context leaves `out` normalized and `lse` = log2 of the sum of exponentials; an empty one leaves
lse = -inf, and whoever merges ignores its `out`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sgrt_kernels.layout import LARGEST_KEY_VALUE

LOG2E = tl.constexpr(1.4426950408889634)
MINUS_INF = tl.constexpr(float("-inf"))
_LARGEST = tl.constexpr(LARGEST_KEY_VALUE)

# Arguments that differ from step to step. A kernel must not be compiled anew because a page table happens to have one
# column, or sixteen, or to lie where it does.
STEP_SIZES = ("first_sequence", "table_stride", "own_stride")
STEP_NUMBERS = (
    "page_table",
    "own_pages",
    "query_starts",
    "context_lengths",
    "first_pages",
    "items",
    "rows",
    "merge_starts",
    "merge_partials",
)


@triton.jit
def storable(x):
    """`x` as a page may hold it, float32: NaN becomes 0, infinities and what is too large the largest storable."""
    wide = x.to(tl.float32)
    return tl.where(wide != wide, 0.0, tl.minimum(tl.maximum(wide, -_LARGEST), _LARGEST))


@triton.jit
def scaled(products, scale, SOFT_CAP: tl.constexpr):
    """Scores in the base-2 domain: `products * scale`, bent by `cap * tanh(scores / cap)` where SOFT_CAP is not 0."""
    if SOFT_CAP > 0:
        # tanh(x) = 1 - 2 / (exp(2x) + 1), right at both infinities
        doubled = tl.exp2(products * (scale * (2.0 * LOG2E / SOFT_CAP)))
        return (SOFT_CAP * LOG2E) * (1.0 - 2.0 / (doubled + 1.0))
    else:
        return products * (scale * LOG2E)


@triton.jit
def finite_anchor(top):
    """`top` for subtraction: 0 where nothing was seen yet, so that -inf - -inf never arises."""
    return tl.where(top == MINUS_INF, 0.0, top)


@triton.jit
def softened(scores, top, AXIS: tl.constexpr):
    """One step of the online softmax (arXiv 2205.14135) over tokens along AXIS of `scores`, -inf where unseen.

    top: the highest scores so far. Returns the highest now, by what earlier sums shrink, and the weights.
    """
    highest = tl.maximum(top, tl.max(scores, axis=AXIS))
    anchor = finite_anchor(highest)
    return highest, tl.exp2(top - anchor), tl.exp2(scores - tl.expand_dims(anchor, AXIS))


@triton.jit
def rows_of_tile(tile, kv_head, BLOCK_M: tl.constexpr, GROUP: tl.constexpr):
    """The (query, head of the group) rows of a tile, heads innermost: each row's query in the chunk, and its head."""
    packed = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    return packed // GROUP, kv_head * GROUP + packed % GROUP


@triton.jit
def reach_of_tile(tile, start, context, BLOCK_M: tl.constexpr, GROUP: tl.constexpr):
    """First and last position of a tile's queries; the chunk starts at position `start`."""
    lowest = start + (tile * BLOCK_M) // GROUP
    return lowest, tl.minimum(start + (tile * BLOCK_M + BLOCK_M - 1) // GROUP, context - 1)


@triton.jit
def group_query(
    query,
    sequence,
    query_stride,
    head,
    in_group,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """A decoding sequence's query for the heads of a group, [BLOCK_D, heads]."""
    channel = tl.arange(0, BLOCK_D)
    at = sequence.to(tl.int64) * query_stride + head[None, :] * HEAD_DIM + channel[:, None]
    return tl.load(query + at, mask=in_group[None, :] & (channel < HEAD_DIM)[:, None], other=0.0)


@triton.jit
def store_split(
    top,
    total,
    merged,
    partial,
    lse,
    sequence,
    heads,
    head,
    split,
    in_group,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_PARTIAL: tl.constexpr,
):
    """Write one split of a decoding sequence's heads, normalized; see `merge_splits`."""
    result, exponent = normalized(top, total, merged)
    channel = tl.arange(0, BLOCK_D)
    at = (sequence.to(tl.int64) * heads + head) * SPLITS + split
    result_at = partial + at[None, :] * HEAD_DIM + channel[:, None]
    mask = in_group[None, :] & (channel < HEAD_DIM)[:, None]
    tl.store(result_at, result.to(partial.dtype.element_ty), mask=mask)
    if IS_PARTIAL:
        tl.store(lse + at, exponent, mask=in_group)


@triton.jit
def merged_slots(top, total, merged):
    """Merge partial softmaxes along axis 0. top, total: [slots, heads]; merged: [slots, channels, heads]."""
    highest = tl.max(top, axis=0)
    weight = tl.exp2(top - finite_anchor(highest)[None, :])
    return highest, tl.sum(total * weight, axis=0), tl.sum(merged * weight[:, None, :], axis=0)


@triton.jit
def normalized(top, total, merged):
    """Normalized output [channels, heads] and log2 of the sum of exponentials; (0, -inf) where nothing was seen."""
    seen = total > 0
    safe = tl.where(seen, total, 1.0)
    return merged / safe[None, :], tl.where(seen, top + tl.log2(safe), MINUS_INF)


@triton.jit
def merge_splits(
    partial,  # [rows, SPLITS, HEAD_DIM] float32
    lse,  # [rows, SPLITS] float32
    out,  # [rows, HEAD_DIM]
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    SPLITS: tl.constexpr,
):
    """Merge the splits of each (token, head) row. Grid: (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    split, channel = tl.arange(0, SPLITS), tl.arange(0, BLOCK_D)
    in_head = channel < HEAD_DIM
    exponents = tl.load(lse + row * SPLITS + split)
    weight = tl.exp2(exponents - finite_anchor(tl.max(exponents, axis=0)))
    at = (row * SPLITS + split)[:, None] * HEAD_DIM + channel[None, :]
    # an empty split's partial may hold anything
    values = tl.load(partial + at, mask=(weight > 0)[:, None] & in_head[None, :], other=0.0)
    total = tl.sum(weight, axis=0)
    result = tl.sum(values * weight[:, None], axis=0) / tl.where(total > 0, total, 1.0)
    tl.store(out + row * HEAD_DIM + channel, result.to(out.dtype.element_ty), mask=in_head)
