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
):
    """Write one split of a decoding sequence's heads, normalized; see `merge_splits`."""
    result, exponent = normalized(top, total, merged)
    channel = tl.arange(0, BLOCK_D)
    at = (sequence.to(tl.int64) * heads + head) * SPLITS + split
    result_at = partial + at[None, :] * HEAD_DIM + channel[:, None]
    mask = in_group[None, :] & (channel < HEAD_DIM)[:, None]
    tl.store(result_at, result.to(partial.dtype.element_ty), mask=mask)
    if SPLITS > 1:
        tl.store(lse + at, exponent, mask=in_group)


@triton.jit
def relative_scale(code, CODE: tl.constexpr):
    """Scale codes (see scale_code) as float16 multiples of their base; the three exponent bits move into place.

    For "soft_fp8", whose elements read as 1/256 of their value, the multiples are 256 times as large.
    """
    exponent_of_zero: tl.constexpr = 15 - 7 + 8 if CODE == "soft_fp8" else 15 - 7
    return ((code.to(tl.uint16) << 5) + (exponent_of_zero << 10)).to(tl.uint16).to(tl.float16, bitcast=True)


@triton.jit
def half_of_int8(code, PTX: tl.constexpr):
    """int8 as float16: the byte, offset by 128, becomes the fraction of 1024; then 1024 + 128 is taken off.

    With PTX the four bytes of a word are converted in five instructions, where the compiler needs a dozen; the
    interpreter runs the portable form of the same arithmetic.
    """
    if PTX:
        return tl.inline_asm_elementwise(
            """{
            .reg .b32 word, bias;
            xor.b32 word, $2, 0x80808080;
            mov.b32 bias, 0x64806480;
            prmt.b32 $0, word, 0x64646464, 0x4140;
            prmt.b32 $1, word, 0x64646464, 0x4342;
            sub.f16x2 $0, $0, bias;
            sub.f16x2 $1, $1, bias;
            }""",
            constraints="=&r,=r,r",
            args=[code],
            dtype=tl.float16,
            is_pure=True,
            pack=4,
        )
    else:
        biased = (code.to(tl.uint8, bitcast=True) ^ 0x80).to(tl.uint16) | 0x6400
        return biased.to(tl.float16, bitcast=True) - 1152.0


@triton.jit
def half_of_code(code, CODE: tl.constexpr, PTX: tl.constexpr):
    """Sealed elements as float16, exactly.

    CODE "int8": see half_of_int8; "fp8": the hardware's conversion (sm_89 up); "soft_fp8": sign, exponent and
    fraction moved into place, the value is 1/256 of the code's (sm_80).
    """
    if CODE == "int8":
        return half_of_int8(code, PTX)
    elif CODE == "soft_fp8":
        if PTX:
            return tl.inline_asm_elementwise(
                """{
                .reg .b32 low, high, low_rest, high_rest;
                prmt.b32 low, $2, 0, 0x1404;
                prmt.b32 high, $2, 0, 0x3424;
                and.b32 low_rest, low, 0x7F007F00;
                and.b32 high_rest, high, 0x7F007F00;
                shr.b32 low_rest, low_rest, 1;
                shr.b32 high_rest, high_rest, 1;
                lop3.b32 $0, low, 0x80008000, low_rest, 0xEA;
                lop3.b32 $1, high, 0x80008000, high_rest, 0xEA;
                }""",
                constraints="=&r,=r,r",
                args=[code],
                dtype=tl.float16,
                is_pure=True,
                pack=4,
            )
        else:
            bits = code.to(tl.uint8, bitcast=True).to(tl.uint16)
            return (((bits & 0x7F) << 7) | ((bits & 0x80) << 8)).to(tl.float16, bitcast=True)
    else:
        return code.to(tl.float16)


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
