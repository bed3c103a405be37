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

_BLOCK = 2048
_ENTRIES = 256
_MINUS_INF = tl.constexpr(float("-inf"))
_ALL = tl.constexpr(0x7FFFFFFF)


@triton.jit
def _product(x, factor):
    """The low 32 bits of a product. Written in 64 bits, where nothing overflows; compiled to one multiplication."""
    return (x.to(tl.uint64) * factor).to(tl.uint32)


@triton.jit
def _sum(x, y):
    """The low 32 bits of a sum."""
    return (x.to(tl.uint64) + y.to(tl.uint64)).to(tl.uint32)


@triton.jit
def _mix(x):
    x = x ^ (x >> 16)
    x = _product(x, 0x7FEB352D)
    x = x ^ (x >> 15)
    x = _product(x, 0x846CA68B)
    return x ^ (x >> 16)


@triton.jit
def _gumbel(token, low, high):
    bits = _mix(_sum(_mix(token.to(tl.uint32) ^ low), high))
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
    tokens,
    floor,
    floor_share,
    BY_MASS: tl.constexpr,
    HAS_MASK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The lowest key that stays so that at least `need` stays, counted in tokens or in mass exp(score - top).

    Only the `tokens` keys from `floor` up count, those equal to it by `floor_share`. Returns the key, the measure of
    the keys above it, and whether several tokens share it (then only some of them may stay).
    """
    low = tl.zeros((), tl.uint32)
    above = tl.zeros((), tl.float32)  # measure of the keys past the upper border
    tokens_above = tl.zeros((), tl.int32)
    tokens_from_low = tokens
    shift = 30
    while shift >= 0:
        first = low + (tl.full((), 1, tl.uint32) << shift)
        second = low + (tl.full((), 2, tl.uint32) << shift)
        third = low + (tl.full((), 3, tl.uint32) << shift)
        # summed lane by lane, reduced once a pass
        mass_1, mass_2, mass_3 = (
            tl.zeros((BLOCK,), tl.float32),
            tl.zeros((BLOCK,), tl.float32),
            tl.zeros((BLOCK,), tl.float32),
        )
        count_1, count_2, count_3 = (
            tl.zeros((BLOCK,), tl.int32),
            tl.zeros((BLOCK,), tl.int32),
            tl.zeros((BLOCK,), tl.int32),
        )
        for start in range(0, vocabulary, BLOCK):
            x, _ = _scores(logits, mask, start, vocabulary, temperature, HAS_MASK, BLOCK)
            key = _key(x)
            counts = (x > _MINUS_INF) & (key >= floor)
            from_1, from_2, from_3 = (
                counts & (key >= first),
                counts & (key >= second),
                counts & (key >= third),
            )
            count_1 += from_1.to(tl.int32)
            count_2 += from_2.to(tl.int32)
            count_3 += from_3.to(tl.int32)
            if BY_MASS:
                share = tl.exp(x - top) * tl.where(key == floor, floor_share, 1.0)
                mass_1 += tl.where(from_1, share, 0.0)
                mass_2 += tl.where(from_2, share, 0.0)
                mass_3 += tl.where(from_3, share, 0.0)
        n1, n2, n3 = tl.sum(count_1, axis=0), tl.sum(count_2, axis=0), tl.sum(count_3, axis=0)
        if BY_MASS:
            m1, m2, m3 = tl.sum(mass_1, axis=0), tl.sum(mass_2, axis=0), tl.sum(mass_3, axis=0)
        else:
            m1, m2, m3 = n1.to(tl.float32), n2.to(tl.float32), n3.to(tl.float32)
        if m3 >= need:
            low, tokens_from_low = third, n3
        elif m2 >= need:
            low, tokens_from_low, above, tokens_above = second, n2, m3, n3
        elif m1 >= need:
            low, tokens_from_low, above, tokens_above = first, n1, m2, n2
        else:
            above, tokens_above = m1, n1
        shift -= 2
        if tokens_from_low - tokens_above <= 1:
            shift = -1
    return low, above, tokens_from_low - tokens_above > 1


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
    tops = tl.full((BLOCK,), _MINUS_INF, tl.float32)
    counts = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, vocabulary, BLOCK):
        x, _ = _scores(logits, masks, start, vocabulary, temperature, HAS_MASK, BLOCK)
        tops = tl.maximum(tops, x)
        counts += (x > _MINUS_INF).to(tl.int32)
    top, allowed = tl.max(tops, axis=0), tl.sum(counts, axis=0)
    border = tl.zeros((), tl.uint32)
    room = tl.full((), _ALL, tl.int32)  # how many tokens at the border stay
    if HAS_TOP_K:
        count = tl.load(top_ks + row).to(tl.int32)
        if (count > 0) & (count < allowed) & (is_greedy == 0):
            need = count.to(tl.float32)
            border, above, is_tied = _border(
                logits,
                masks,
                vocabulary,
                temperature,
                top,
                need,
                allowed,
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
            counts = tl.zeros((BLOCK,), tl.int32)
            at_border = tl.zeros((BLOCK,), tl.int32)
            masses = tl.zeros((BLOCK,), tl.float32)
            border_masses = tl.zeros((BLOCK,), tl.float32)
            for start in range(0, vocabulary, BLOCK):
                x, _ = _scores(logits, masks, start, vocabulary, temperature, HAS_MASK, BLOCK)
                key, mass, is_allowed = _key(x), tl.exp(x - top), x > _MINUS_INF
                counts += (is_allowed & (key >= border)).to(tl.int32)
                at_border += (is_allowed & (key == border)).to(tl.int32)
                masses += tl.where(is_allowed & (key > border), mass, 0.0)
                border_masses += tl.where(is_allowed & (key == border), mass, 0.0)
            ties = tl.sum(at_border, axis=0)
            floor_share = tl.minimum(room, ties).to(tl.float32) / tl.maximum(ties, 1).to(tl.float32)
            need = share * (tl.sum(masses, axis=0) + tl.sum(border_masses, axis=0) * floor_share)
            tokens = tl.sum(counts, axis=0)
            lowest, above, is_tied = _border(
                logits,
                masks,
                vocabulary,
                temperature,
                top,
                need,
                tokens,
                border,
                floor_share,
                True,
                HAS_MASK,
                BLOCK,
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
        low_word = _sum(_mix(seed.to(tl.uint32)), (seed >> 32).to(tl.uint32))
        low_word = _mix(_sum(low_word, _product((position + 1).to(tl.uint32), 0x9E3779B9)))
        high_word = _mix(low_word ^ 0x85EBCA6B ^ (position >> 32).to(tl.uint32))
    best = tl.full((BLOCK,), _MINUS_INF, tl.float32)
    chosen = tl.full((BLOCK,), _ALL, tl.int32)
    ties_seen = 0
    for start in range(0, vocabulary, BLOCK):
        x, token = _scores(logits, masks, start, vocabulary, temperature, HAS_MASK, BLOCK)
        key = _key(x)
        stays = key >= border
        if room < _ALL:
            is_tie = ((key == border) & (x > _MINUS_INF)).to(tl.int32)
            place = ties_seen + tl.cumsum(is_tie, axis=0)
            stays = (key > border) | ((is_tie != 0) & (place <= room))
            ties_seen += tl.sum(is_tie, axis=0)
        stays = stays & (x >= least)
        if SAMPLES:
            x = x + tl.where(is_greedy, 0.0, _gumbel(token, low_word, high_word))
        x = tl.where(stays, x, _MINUS_INF)
        is_better = x > best
        best = tl.where(is_better, x, best)
        chosen = tl.where(is_better, token, chosen)
    winner = tl.min(tl.where(best == tl.max(best, axis=0), chosen, _ALL), axis=0)
    winner = tl.where(winner == _ALL, -1, winner)  # no score above -inf
    tl.store(out + row, winner.to(tl.int64))


@triton.jit(do_not_specialize=["entries"])  # differs from step to step
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


@triton.jit(do_not_specialize=["entries"])
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
