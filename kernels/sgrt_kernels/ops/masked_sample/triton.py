"""Masked sampling on a GPU: no sort, no scratch memory, one program a row, so a row depends on itself alone.

Top-k and top-p each look for the smallest score that stays, by splitting the range of order-preserving 32-bit keys in
four, pass after pass, until one token is left between the borders (a handful of passes; 16 where scores tie). Equal
scores at the border are taken by lowest id. The last pass adds the noise of `reference.gumbel_noise`, the same words
of the same counter, and keeps the largest.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.ops.masked_sample.rows import LogitBias, SamplingRows, TokenHistory

_BLOCK = 4096
_ENTRIES = 256
_MINUS_INF = tl.constexpr(float("-inf"))
_ALL = tl.constexpr(0x7FFFFFFF)


@triton.jit
def _mix(x):
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _gumbel(token, low, high):
    bits = _mix(_mix(token.to(tl.uint32) ^ low) + high)
    uniform = ((bits >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07  # 2 ** -23
    return -tl.log(-tl.log(uniform))


@triton.jit
def _key(x):
    """float32 as uint32 of the same order."""
    bits = x.to(tl.uint32, bitcast=True)
    return tl.where((bits >> 31) != 0, bits ^ 0xFFFFFFFF, bits | 0x80000000)


@triton.jit
def _scores(logits, mask, start, vocabulary, temperature, HAS_MASK: tl.constexpr, BLOCK: tl.constexpr):
    """Scores of one block of the row, -inf where the mask forbids, and their token ids."""
    token = start + tl.arange(0, BLOCK)
    inside = token < vocabulary
    x = tl.load(logits + token, mask=inside, other=_MINUS_INF).to(tl.float32)
    if HAS_MASK:
        word = tl.load(mask + (token >> 5), mask=inside, other=0)
        x = tl.where(((word >> (token & 31)) & 1) != 0, x, _MINUS_INF)
    return tl.div_rn(x, temperature + tl.zeros_like(x)), token


@triton.jit
def _border(
    logits,
    mask,
    vocabulary,
    temperature,
    top,
    need,
    floor,
    floor_share,
    BY_MASS: tl.constexpr,
    HAS_MASK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The lowest key that stays so that at least `need` stays, counted in tokens or in mass exp(score - top).

    Only keys from `floor` up count, those equal to it by `floor_share`. Returns the key, the measure above it, and
    whether several tokens share it (then only some of them may stay).
    """
    low = tl.zeros((), tl.uint32)
    above = tl.zeros((), tl.float32)  # measure of the keys past the upper border
    tokens_above = tl.zeros((), tl.int32)
    shift = 30
    is_tied = True
    while shift >= 0:
        first = low + (tl.full((), 1, tl.uint32) << shift)
        second = low + (tl.full((), 2, tl.uint32) << shift)
        third = low + (tl.full((), 3, tl.uint32) << shift)
        m0, m1, m2, m3 = 0.0, 0.0, 0.0, 0.0
        n0, n1, n2, n3 = 0, 0, 0, 0
        for start in range(0, vocabulary, BLOCK):
            x, _ = _scores(logits, mask, start, vocabulary, temperature, HAS_MASK, BLOCK)
            key = _key(x)
            counts = (x > _MINUS_INF) & (key >= floor)
            if BY_MASS:
                share = tl.where(counts, tl.exp(x - top) * tl.where(key == floor, floor_share, 1.0), 0.0)
            else:
                share = counts.to(tl.float32)
            m0 += tl.sum(tl.where(key >= low, share, 0.0), axis=0)
            m1 += tl.sum(tl.where(key >= first, share, 0.0), axis=0)
            m2 += tl.sum(tl.where(key >= second, share, 0.0), axis=0)
            m3 += tl.sum(tl.where(key >= third, share, 0.0), axis=0)
            n0 += tl.sum((counts & (key >= low)).to(tl.int32), axis=0)
            n1 += tl.sum((counts & (key >= first)).to(tl.int32), axis=0)
            n2 += tl.sum((counts & (key >= second)).to(tl.int32), axis=0)
            n3 += tl.sum((counts & (key >= third)).to(tl.int32), axis=0)
        if m3 >= need:
            low = third
            inside = n3 - tokens_above
        elif m2 >= need:
            low, above, tokens_above = second, m3, n3
            inside = n2 - n3
        elif m1 >= need:
            low, above, tokens_above = first, m2, n2
            inside = n1 - n2
        else:
            above, tokens_above = m1, n1
            inside = n0 - n1
        shift -= 2
        if inside <= 1:
            is_tied = False
            shift = -1
    return low, above, is_tied


@triton.jit
def masked_sample_kernel(
    logits,
    masks,
    temperatures,
    top_ks,
    top_ps,
    min_ps,
    seeds,
    positions,
    out,
    vocabulary,
    logits_stride,
    masks_stride,
    HAS_MASK: tl.constexpr,
    SAMPLES: tl.constexpr,
    HAS_TOP_K: tl.constexpr,
    HAS_TOP_P: tl.constexpr,
    HAS_MIN_P: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Grid: (rows,)."""
    row = tl.program_id(0).to(tl.int64)
    logits += row * logits_stride
    masks += row * masks_stride
    temperature = 0.0
    if SAMPLES:
        temperature = tl.load(temperatures + row)
    is_greedy = temperature <= 0.0
    temperature = tl.where(is_greedy, 1.0, temperature)
    top = _MINUS_INF
    allowed = 0
    for start in range(0, vocabulary, BLOCK):
        x, _ = _scores(logits, masks, start, vocabulary, temperature, HAS_MASK, BLOCK)
        top = tl.maximum(top, tl.max(x, axis=0))
        allowed += tl.sum((x > _MINUS_INF).to(tl.int32), axis=0)
    border = tl.zeros((), tl.uint32)
    room = tl.full((), _ALL, tl.int32)  # how many tokens at the border stay
    if HAS_TOP_K:
        count = tl.load(top_ks + row).to(tl.int32)
        if (count > 0) & (count < allowed) & (is_greedy == 0):
            border, above, is_tied = _border(
                logits,
                masks,
                vocabulary,
                temperature,
                top,
                count.to(tl.float32),
                border,
                1.0,
                False,
                HAS_MASK,
                BLOCK,
            )
            if is_tied:
                room = count - above.to(tl.int32)
    if HAS_TOP_P:
        share = tl.load(top_ps + row)
        if (share < 1.0) & (is_greedy == 0):
            ties, mass, tie_mass = 0, 0.0, 0.0
            for start in range(0, vocabulary, BLOCK):
                x, _ = _scores(logits, masks, start, vocabulary, temperature, HAS_MASK, BLOCK)
                key, exponential = _key(x), tl.exp(x - top)
                mass += tl.sum(tl.where((x > _MINUS_INF) & (key > border), exponential, 0.0), axis=0)
                at_border = (x > _MINUS_INF) & (key == border)
                ties += tl.sum(at_border.to(tl.int32), axis=0)
                tie_mass += tl.sum(tl.where(at_border, exponential, 0.0), axis=0)
            floor_share = tl.minimum(room, ties).to(tl.float32) / tl.maximum(ties, 1).to(tl.float32)
            need = share * (mass + tie_mass * floor_share)
            lowest, above, is_tied = _border(
                logits, masks, vocabulary, temperature, top, need, border, floor_share, True, HAS_MASK, BLOCK
            )
            if lowest > border:
                border = lowest
                room = tl.full((), _ALL, tl.int32)
            if is_tied & (lowest == border):
                bits = tl.where((border >> 31) != 0, border ^ 0x80000000, border ^ 0xFFFFFFFF)
                each = tl.exp(bits.to(tl.float32, bitcast=True) - top)
                room = tl.minimum(room, tl.maximum(tl.ceil((need - above) / each).to(tl.int32), 1))
    least = _MINUS_INF
    if HAS_MIN_P:
        least = tl.where(is_greedy, _MINUS_INF, top + tl.log(tl.load(min_ps + row)))
    low_word, high_word = tl.zeros((), tl.uint32), tl.zeros((), tl.uint32)
    if SAMPLES:
        seed, position = tl.load(seeds + row), tl.load(positions + row)
        low_word = _mix(seed.to(tl.uint32)) + (seed >> 32).to(tl.uint32)
        low_word = _mix(low_word + (position + 1).to(tl.uint32) * 0x9E3779B9)
        high_word = _mix(low_word ^ 0x85EBCA6B ^ (position >> 32).to(tl.uint32))
    best = _MINUS_INF
    chosen = tl.full((), _ALL, tl.int32)
    ties_seen = 0
    for start in range(0, vocabulary, BLOCK):
        x, token = _scores(logits, masks, start, vocabulary, temperature, HAS_MASK, BLOCK)
        key = _key(x)
        stays = key >= border
        if room < _ALL:
            at_border = ((key == border) & (x > _MINUS_INF)).to(tl.int32)
            place = ties_seen + tl.cumsum(at_border, axis=0)
            stays = (key > border) | ((at_border != 0) & (place <= room))
            ties_seen += tl.sum(at_border, axis=0)
        stays = stays & (x >= least)
        if SAMPLES:
            x = x + tl.where(is_greedy, 0.0, _gumbel(token, low_word, high_word))
        x = tl.where(stays, x, _MINUS_INF)
        block_best = tl.max(x, axis=0)
        block_token = tl.min(tl.where((x == block_best) & (x > _MINUS_INF), token, _ALL), axis=0)
        if block_best > best:
            best, chosen = block_best, block_token
    tl.store(out + row, chosen.to(tl.int64))


@triton.jit
def penalty_kernel(
    logits, rows, tokens, counts, repetition, presence, frequency, entries, stride, BLOCK: tl.constexpr
):
    """Penalties on the tokens a row has seen, in place. Grid: (blocks of entries,)."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < entries
    row = tl.load(rows + entry, mask=inside, other=0)
    at = logits + row * stride + tl.load(tokens + entry, mask=inside, other=0)
    x, penalty = tl.load(at, mask=inside, other=0.0), tl.load(repetition + row, mask=inside, other=1.0)
    count = tl.load(counts + entry, mask=inside, other=0.0)
    x = tl.where(x > 0, tl.div_rn(x, penalty), x * penalty)
    x = x - tl.load(frequency + row, mask=inside, other=0.0) * count
    x = x - tl.where(count > 0, tl.load(presence + row, mask=inside, other=0.0), 0.0)
    tl.store(at, x, mask=inside)


@triton.jit
def bias_kernel(logits, rows, tokens, values, entries, stride, BLOCK: tl.constexpr):
    """Add to single logits, in place. Grid: (blocks of entries,)."""
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = entry < entries
    at = tl.load(rows + entry, mask=inside, other=0) * stride + tl.load(tokens + entry, mask=inside, other=0)
    tl.atomic_add(logits + at, tl.load(values + entry, mask=inside, other=0.0), mask=inside)


def masked_sample(logits: Tensor, rows: SamplingRows, *, block: int = _BLOCK) -> Tensor:
    """The next token of every row; see the op."""
    count, vocabulary = logits.shape
    out = torch.empty(count, dtype=torch.int64, device=logits.device)
    if count == 0:
        return out
    logits = _adjusted(logits, rows)
    samples = rows.temperature is not None
    assert not samples or (rows.seeds is not None and rows.positions is not None), (
        "sampling needs seeds and positions"
    )
    masked_sample_kernel[(count,)](
        logits,
        rows.masks if rows.masks is not None else logits,
        *(
            part if part is not None else logits
            for part in (rows.temperature, rows.top_k, rows.top_p, rows.min_p, rows.seeds, rows.positions)
        ),
        out,
        vocabulary,
        logits.stride(0),
        rows.masks.stride(0) if rows.masks is not None else 0,
        HAS_MASK=rows.masks is not None,
        SAMPLES=samples,
        HAS_TOP_K=samples and rows.top_k is not None,
        HAS_TOP_P=samples and rows.top_p is not None,
        HAS_MIN_P=samples and rows.min_p is not None,
        BLOCK=min(block, triton.next_power_of_2(vocabulary)),
        num_warps=8,
    )
    return out


def _adjusted(logits: Tensor, rows: SamplingRows) -> Tensor:
    """`logits` with penalties and bias, in float32; a copy where there are any."""
    if rows.history is None and rows.bias is None:
        return logits if logits.stride(1) == 1 else logits.contiguous()
    logits = logits.to(torch.float32, copy=True).contiguous()
    if rows.history is not None and rows.history.rows.numel():
        _penalize(logits, rows.history)
    if rows.bias is not None and rows.bias.rows.numel():
        _add_bias(logits, rows.bias)
    return logits


def _penalize(logits: Tensor, history: TokenHistory) -> None:
    entries = history.rows.numel()
    penalty_kernel[(triton.cdiv(entries, _ENTRIES),)](
        logits,
        history.rows,
        history.tokens,
        history.output_counts,
        history.repetition_penalty,
        history.presence_penalty,
        history.frequency_penalty,
        entries,
        logits.stride(0),
        BLOCK=_ENTRIES,
    )


def _add_bias(logits: Tensor, bias: LogitBias) -> None:
    entries = bias.rows.numel()
    bias_kernel[(triton.cdiv(entries, _ENTRIES),)](
        logits, bias.rows, bias.tokens, bias.values, entries, logits.stride(0), BLOCK=_ENTRIES
    )
