"""Reading blocks of sealed pages in Triton kernels, in half precision.

Keys enter a dot as `code * relative scale + offset / base`, one fused multiply-add per pair; the head's base, which is
common to them, multiplies the scores. Values stay codes: their scale joins the exponent,
`exp2(score + log2(value scale) - top)`, so that the weights are at most 1 in float16 however small the values are,
and the sum of exponentials divides it out again.
"""

from __future__ import annotations

import triton
import triton.language as tl


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
def sealed_keys(
    keys,
    key_scales,
    key_scale_bases,
    key_offsets,
    key_offset_scales,
    page,
    inside,
    kv_head,
    kv_heads,
    key_page,
    key_token,
    key_head,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CODE: tl.constexpr,
    PTX: tl.constexpr,
):
    """Keys of the tokens `inside` of one page, [tokens, BLOCK_D] float16, to be multiplied by the base that follows."""
    channel = tl.arange(0, BLOCK_D)
    in_head = channel < HEAD_DIM
    key_at = page * key_page + kv_head * key_head + inside * key_token
    k = tl.load(keys + key_at[:, None] + channel[None, :], mask=in_head[None, :], other=0.0)
    head_at = page * kv_heads + kv_head
    channel_at = head_at * HEAD_DIM + channel
    base = tl.load(key_scale_bases + head_at)
    offset_scale = tl.load(key_offset_scales + head_at)
    relative = relative_scale(tl.load(key_scales + channel_at, mask=in_head, other=0), CODE)
    offset = half_of_int8(tl.load(key_offsets + channel_at, mask=in_head, other=0), PTX)
    offset = offset * (offset_scale / base).to(tl.float16)
    return tl.fma(half_of_code(k, CODE, PTX), relative[None, :], offset[None, :]), base


@triton.jit
def sealed_value_codes(
    values,
    page,
    inside,
    kv_head,
    value_page,
    value_token,
    value_head,
    value_channel,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CODE: tl.constexpr,
    PTX: tl.constexpr,
):
    """Codes of the values of the tokens `inside` of one page, [tokens, BLOCK_D] float16."""
    channel = tl.arange(0, BLOCK_D)
    value_at = page * value_page + kv_head * value_head + inside * value_token
    v = tl.load(
        values + value_at[:, None] + (channel * value_channel)[None, :],
        mask=(channel < HEAD_DIM)[None, :],
        other=0.0,
    )
    return half_of_code(v, CODE, PTX)
