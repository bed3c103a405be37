"""From generations to the sampler's tensors: one row per position whose token is to be drawn."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrt.engine.generation import Generation
from sgrt_frontend.call import SamplingParams
from sgrt_kernels.device import staging, upload
from sgrt_kernels.ops.masked_sample import SamplingRows, TokenHistory
from sgrt_kernels.ops.masked_sample.rows import LogitBias

_SEED_STEP = 0x9E37_79B9_7F4A_7C15
_LARGEST_SEED = 2**63 - 1
_NO_ENTRIES = (np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRow:
    """A row of logits from which `generation`'s token behind its first `num_drafts` drafts is drawn.

    A shadow is drawn only to see whether the budget changed the token.
    """

    generation: Generation
    num_drafts: int
    mask: NDArray[np.uint32] | None = None
    is_shadow: bool = False

    @property
    def position(self) -> int:
        """The place of the token in its sequence: the noise depends on it and on the seed alone."""
        return len(self.generation.sequence.tokens) + self.num_drafts


def seed_of_output(seed: int, index: int) -> int:
    """The seed of output `index` of a call: the call's own for the first, and others derived from it."""
    return (seed + index * _SEED_STEP) & _LARGEST_SEED if index else seed


def full_mask(num_words: int) -> NDArray[np.uint32]:
    """A mask row that allows every token."""
    return np.full(num_words, 0xFFFF_FFFF, np.uint32)


def mask_of(token_ids: Collection[int], num_words: int) -> NDArray[np.uint32]:
    """A mask row that allows these tokens alone."""
    ids = np.array(sorted(set(token_ids)), np.int64)
    row = np.zeros(num_words, np.uint32)
    np.bitwise_or.at(row, ids // 32, np.uint32(1) << (ids % 32).astype(np.uint32))
    return row


def build_rows(rows: list[DrawnRow], num_words: int, device: torch.device) -> SamplingRows:
    """The sampler's parameters. What no row asks for is left out, so that plain greedy rows cost nothing.

    `num_words`: 32-bit words of a mask. Nothing here waits for a GPU: what it is given is copied behind what it does.
    """
    packed = _masks(rows, num_words, device) if any(row.mask is not None for row in rows) else None
    params = [row.generation.sampling for row in rows]
    history = _history(rows, device) if any(row.generation.seen is not None for row in rows) else None
    bias = _bias(params, device) if any(param.logit_bias for param in params) else None
    if all(param.temperature == 0 for param in params):
        return SamplingRows(masks=packed, history=history, bias=bias)
    return SamplingRows(
        temperature=_floats([param.temperature for param in params], device),
        top_k=_integers([param.top_k for param in params], device) if any(p.top_k for p in params) else None,
        top_p=_floats([p.top_p for p in params], device) if any(p.top_p < 1 for p in params) else None,
        min_p=_floats([p.min_p for p in params], device) if any(p.min_p for p in params) else None,
        seeds=_integers([row.generation.seed for row in rows], device),
        positions=_integers([row.position for row in rows], device),
        masks=packed,
        history=history,
        bias=bias,
    )


def _masks(rows: list[DrawnRow], num_words: int, device: torch.device) -> Tensor:
    free = full_mask(num_words)
    packed = staging((len(rows), num_words), torch.int32, device)
    np.stack([free if row.mask is None else row.mask for row in rows], out=packed.numpy().view(np.uint32))
    return upload(packed, device)


def _history(rows: list[DrawnRow], device: torch.device) -> TokenHistory:
    entries = [
        seen.entries(row.generation.sequence.drafts[: row.num_drafts])
        if (seen := row.generation.seen) is not None
        else _NO_ENTRIES
        for row in rows
    ]
    lengths = [len(tokens) for tokens, _ in entries]
    params = [row.generation.sampling for row in rows]
    return TokenHistory(
        rows=upload(torch.from_numpy(np.repeat(np.arange(len(rows)), lengths)), device),
        tokens=upload(torch.from_numpy(np.concatenate([tokens for tokens, _ in entries])), device),
        output_counts=upload(torch.from_numpy(np.concatenate([counts for _, counts in entries])), device),
        repetition_penalty=_floats([param.repetition_penalty for param in params], device),
        presence_penalty=_floats([param.presence_penalty for param in params], device),
        frequency_penalty=_floats([param.frequency_penalty for param in params], device),
    )


def _bias(params: list[SamplingParams], device: torch.device) -> LogitBias:
    entries = [(row, token, value) for row, param in enumerate(params) for token, value in param.logit_bias]
    return LogitBias(
        rows=_integers([row for row, _, _ in entries], device),
        tokens=_integers([token for _, token, _ in entries], device),
        values=_floats([value for _, _, value in entries], device),
    )


def _floats(values: list[float], device: torch.device) -> Tensor:
    return upload(torch.tensor(values, dtype=torch.float32), device)


def _integers(values: list[int], device: torch.device) -> Tensor:
    return upload(torch.tensor(values, dtype=torch.int64), device)
