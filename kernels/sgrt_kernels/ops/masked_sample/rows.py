"""How the rows of a batch are drawn: one value per row and parameter."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenHistory:
    """Tokens a row has seen, one entry per distinct (row, token), ordered by row."""

    rows: Tensor  # [entries] int64
    tokens: Tensor  # [entries] int64
    output_counts: Tensor  # [entries] float32, how often the row generated it; 0: only in its prompt
    repetition_penalty: Tensor  # [rows] float32, 1 is none
    presence_penalty: Tensor  # [rows] float32, 0 is none
    frequency_penalty: Tensor  # [rows] float32, 0 is none


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitBias:
    """What to add to single logits, ordered by row."""

    rows: Tensor  # [entries] int64
    tokens: Tensor  # [entries] int64
    values: Tensor  # [entries] float32


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingRows:
    """Parameters of `masked_sample`. What is None applies to no row.

    A mask has bit `t % 32` of word `t // 32` set where token `t` is allowed; at least one is.
    `seeds` and `positions` alone decide a row's noise: see `reference.gumbel_noise`.
    """

    temperature: Tensor | None = None  # [rows] float32; 0 is greedy; None: all rows are greedy
    top_k: Tensor | None = None  # [rows] int64; 0 keeps all
    top_p: Tensor | None = None  # [rows] float32; 1 keeps all
    min_p: Tensor | None = None  # [rows] float32; 0 keeps all
    seeds: Tensor | None = None  # [rows] int64, non-negative; needed with a temperature
    positions: Tensor | None = None  # [rows] int64, non-negative; needed with a temperature
    masks: Tensor | None = None  # [rows, ceil(vocabulary / 32)] int32
    history: TokenHistory | None = None
    bias: LogitBias | None = None
