"""Masked sampling in plain torch: the definition its faster twins reproduce.

The noise is a function of (seed, position, token) alone, in 32-bit unsigned arithmetic:

    mix(x):  x ^= x >> 16;  x *= 0x7FEB352D;  x ^= x >> 15;  x *= 0x846CA68B;  x ^= x >> 16
    low  = mix(mix(seed & 0xFFFFFFFF) + (seed >> 32) + 0x9E3779B9 * (position + 1))
    high = mix(low ^ 0x85EBCA6B ^ (position >> 32))
    bits = mix(mix(token ^ low) + high)
    u    = ((bits >> 9) + 0.5) * 2^-23          exact in float32, strictly between 0 and 1
    noise = -log(-log(u))                       float32

`mix` is a bijection of 32-bit words with low bias (constants: C. Wellons, hash-prospector, public domain).
The argmax of logits + Gumbel noise is distributed as softmax(logits) (Gumbel 1954; Maddison et al. 2014).
"""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.ops.masked_sample.rows import LogitBias, SamplingRows, TokenHistory

_WORD = 0xFFFF_FFFF
_CANDIDATES = 256  # the most probable tokens among which top-k and top-p usually find their border


def masked_sample(logits: Tensor, rows: SamplingRows) -> Tensor:
    """The next token of every row; see the op."""
    scores = _adjusted(logits, rows)
    scores = scores.masked_fill(scores.isnan(), -torch.inf)
    tokens = _drawn(scores, rows)
    return tokens.where(scores.amax(dim=-1) > -torch.inf, -1)


def token_logprobs(logits: Tensor, tokens: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log-probabilities of given tokens and of the most probable ones; see the op."""
    total = logits.logsumexp(dim=-1, keepdim=True)
    chosen = logits.gather(-1, tokens[:, None]) - total
    if top == 0:
        empty = logits.new_empty((len(logits), 0))
        return chosen.squeeze(-1), empty.to(torch.int64), empty
    values, ids = _best(logits.masked_fill(logits.isnan(), -torch.inf), min(top, logits.shape[-1]))
    is_missing = values == -torch.inf
    return (
        chosen.squeeze(-1),
        ids.masked_fill(is_missing, -1),
        (values - total).masked_fill(is_missing, -torch.inf),
    )


def gumbel_noise(seeds: Tensor, positions: Tensor, vocabulary: int) -> Tensor:
    """Standard Gumbel noise [rows, vocabulary] float32 of rows with these seeds and positions (int64)."""
    low = _mix(_mix(seeds & _WORD) + (seeds >> 32) + 0x9E37_79B9 * (positions + 1) & _WORD)
    high = _mix(low ^ 0x85EB_CA6B ^ (positions >> 32))
    tokens = torch.arange(vocabulary, device=seeds.device)
    bits = _mix(_mix(tokens[None, :] ^ low[:, None]) + high[:, None] & _WORD)
    uniform = ((bits >> 9).to(torch.float32) + 0.5) * 2.0**-23
    return -torch.log(-torch.log(uniform))


def unpacked_masks(masks: Tensor, vocabulary: int) -> Tensor:
    """Packed masks [rows, words] int32 as booleans [rows, vocabulary]."""
    octets = masks.contiguous().view(torch.uint8)
    bits = (octets[:, :, None] >> torch.arange(8, dtype=torch.uint8, device=masks.device)) & 1
    return bits.view(len(masks), -1)[:, :vocabulary].to(torch.bool)


def _drawn(scores: Tensor, rows: SamplingRows) -> Tensor:
    if rows.temperature is None:
        return scores.argmax(dim=-1)
    assert rows.seeds is not None and rows.positions is not None, "sampling needs seeds and positions"
    greedy = rows.temperature == 0
    scaled = scores / rows.temperature.masked_fill(greedy, 1.0)[:, None]
    kept = _filtered(scaled, rows)
    noise = gumbel_noise(rows.seeds, rows.positions, scores.shape[-1])
    drawn = kept + noise.masked_fill(greedy[:, None], 0.0)
    return torch.where(greedy, scores.argmax(dim=-1), drawn.argmax(dim=-1))


def _adjusted(logits: Tensor, rows: SamplingRows) -> Tensor:
    scores = logits
    if rows.history is not None:
        scores = _penalized(scores, rows.history)
    if rows.bias is not None:
        scores = _biased(scores, rows.bias)
    if rows.masks is not None:
        scores = scores.masked_fill(~unpacked_masks(rows.masks, logits.shape[-1]), -torch.inf)
    return scores


def _penalized(logits: Tensor, history: TokenHistory) -> Tensor:
    """Repetition divides positive logits and multiplies others (Keskar et al. 2019); the rest subtracts."""
    at = (history.rows, history.tokens)
    seen = logits[at]
    repetition = history.repetition_penalty[history.rows]
    seen = torch.where(seen > 0, seen / repetition, seen * repetition)
    counts = history.output_counts
    seen = seen - history.frequency_penalty[history.rows] * counts
    seen = seen - history.presence_penalty[history.rows] * (counts > 0)
    return logits.index_put(at, seen)


def _biased(logits: Tensor, bias: LogitBias) -> Tensor:
    return logits.index_put((bias.rows, bias.tokens), bias.values, accumulate=True)


def _filtered(scores: Tensor, rows: SamplingRows) -> Tensor:
    """`scores` with -inf where top-k, top-p or min-p drop a token."""
    if rows.top_k is not None or rows.top_p is not None:
        scores = _truncated(scores, rows)
    if rows.min_p is not None:
        border = scores.amax(dim=-1) + torch.log(rows.min_p)
        scores = scores.masked_fill(scores < border[:, None], -torch.inf)
    return scores


def _truncated(scores: Tensor, rows: SamplingRows) -> Tensor:
    """Keep the best tokens only: the first `top_k`, and of these the fewest whose mass reaches `top_p`.

    Few rows need more than the best few hundred tokens to find that border; those that do are sorted whole.
    """
    count, vocabulary = scores.shape
    top_k = rows.top_k if rows.top_k is not None else scores.new_zeros(count, dtype=torch.int64)
    top_k = torch.where(top_k == 0, vocabulary, top_k)
    top_p = rows.top_p if rows.top_p is not None else scores.new_ones(count)
    result = scores.clone()
    filters = (top_k < vocabulary) | (top_p < 1)
    width = min(_CANDIDATES, vocabulary)
    while bool(filters.any()):
        chosen = filters.nonzero().squeeze(-1)
        values, ids = _best(scores[chosen], width)
        kept, found = _kept(values, scores[chosen], top_k[chosen], top_p[chosen])
        done = found | (width == vocabulary)
        cut = torch.full_like(scores[chosen], -torch.inf).scatter(
            -1, ids, values.masked_fill(~kept, -torch.inf)
        )
        result[chosen[done]] = cut[done]
        filters[chosen[done]] = False
        width = vocabulary
    return result


def _kept(values: Tensor, scores: Tensor, top_k: Tensor, top_p: Tensor) -> tuple[Tensor, Tensor]:
    """Which of the best `values` (sorted) stay, and whether the border lies among them for sure."""
    width = values.shape[-1]
    place = torch.arange(width, device=values.device)
    in_top_k = place[None, :] < top_k[:, None]
    # The mass that top-k left: all of the row, or of its first k.
    total = torch.where(
        top_k < width,
        values.masked_fill(~in_top_k, -torch.inf).logsumexp(dim=-1),
        scores.logsumexp(dim=-1),
    )
    mass = torch.exp(values - total[:, None])
    before = mass.cumsum(dim=-1) - mass
    kept = in_top_k & ((before < top_p[:, None]) | (place == 0)[None, :])
    found = (top_k < width) | ((top_k >= scores.shape[-1]) & ~kept[:, -1])
    return kept & (values > -torch.inf), found


def _best(scores: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The `width` largest scores of each row, best first, ties by id."""
    if width == scores.shape[-1]:
        values, ids = scores.sort(dim=-1, descending=True, stable=True)
        return values, ids
    values, ids = scores.topk(width, dim=-1)
    if bool((values[:, -1:] == scores).sum(dim=-1).ne((values[:, -1:] == values).sum(dim=-1)).any()):
        values, ids = scores.sort(
            dim=-1, descending=True, stable=True
        )  # a tie at the border: take the lowest ids
        return values[:, :width], ids[:, :width]
    ids, order = ids.sort(dim=-1)
    values, best = values.gather(-1, order).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(-1, best)


def _mix(x: Tensor) -> Tensor:
    x = x ^ (x >> 16)
    x = x * 0x7FEB_352D & _WORD
    x = x ^ (x >> 15)
    x = x * 0x846C_A68B & _WORD
    return x ^ (x >> 16)
