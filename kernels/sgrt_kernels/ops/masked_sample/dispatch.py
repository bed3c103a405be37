"""Chooses how to sample, by the logits' device."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.device import is_overridden, runs_triton, triton_kernels
from sgrt_kernels.ops.masked_sample import native, reference
from sgrt_kernels.ops.masked_sample.rows import SamplingRows


def masked_sample(logits: Tensor, rows: SamplingRows) -> Tensor:
    """The next token of every row: [rows] int64. `logits` [rows, vocabulary] float32 stay as they are.

    In this order: penalties, bias, mask; then, for a temperature above 0, division by it, top-k, top-p
    (of what top-k left, renormalized), min-p (relative to the most probable token), and a draw by
    Gumbel-max. Temperature 0 takes the largest logit. Ties go to the lowest id.
    Scores that are not numbers are never drawn; a row where no allowed token has a score above -inf gives -1.
    A row's result depends on that row alone.
    """
    if _is_native(logits):
        return native.masked_sample(logits, rows)
    if runs_triton(logits):
        result: Tensor = triton_kernels("masked_sample").masked_sample(logits, rows)
        return result
    return reference.masked_sample(logits, rows)


def token_logprobs(logits: Tensor, tokens: Tensor, top: int) -> tuple[Tensor, Tensor, Tensor]:
    """Natural logarithms of the model's own probabilities: no mask, penalty or temperature.

    logits: [rows, vocabulary] float32; tokens: [rows] int64. Returns the log-probability of each
    token [rows], and of the `top` most probable ones their ids [rows, top] and values [rows, top],
    best first, ties by id. Where fewer have a logit above -inf, the places left hold id -1 and -inf.
    A row without any has NaN for its token.
    """
    if _is_native(logits):
        return native.token_logprobs(logits, tokens, top)
    return reference.token_logprobs(logits, tokens, top)


def _is_native(logits: Tensor) -> bool:
    return (
        logits.device.type == "cpu"
        and logits.dtype == torch.float32
        and not is_overridden()
        and native.is_available()
    )
