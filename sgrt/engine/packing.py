"""From a plan's lists to the arrays of one forward pass."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sgrt.engine.plan import Plan, Span
from sgrt.engine.step_arrays import HostArrays, StepSize


def size_of(plan: Plan, page_tokens: int, *, is_sealed: bool) -> StepSize:
    """The size of a plan's pass."""
    widest = max((-(-(span.start + len(span.tokens)) // page_tokens) for span in plan.spans), default=1)
    return StepSize(
        tokens=plan.num_tokens,
        sequences=len(plan.spans),
        pages=max(widest, 1),
        rows=plan.num_logit_rows,
        seals=sum(len(span.filled(page_tokens)) for span in plan.spans) if is_sealed else 0,
        own_pages=max(1, *(len(span.own_pages) for span in plan.spans), 1) if is_sealed else 0,
    )


def num_single(plan: Plan) -> int:
    """How many spans of one token come before all others."""
    return next((index for index, span in enumerate(plan.spans) if len(span.tokens) > 1), len(plan.spans))


def singles_first(plan: Plan) -> tuple[Plan, list[int] | None]:
    """The plan with its spans of one token before all others.

    Also where each of its rows of logits then lies; None where the order was that already.
    """
    order = sorted(range(len(plan.spans)), key=lambda index: len(plan.spans[index].tokens) > 1)
    if order == list(range(len(order))):
        return plan, None
    first_rows, row = [0] * len(order), 0
    for index in order:
        first_rows[index] = row
        row += _num_rows(plan.spans[index])
    places = [
        first + at
        for first, span in zip(first_rows, plan.spans, strict=True)
        for at in range(_num_rows(span))
    ]
    return replace(plan, spans=tuple(plan.spans[index] for index in order)), places


def _num_rows(span: Span) -> int:
    return len(span.tokens) - span.logits_from


def pack(plan: Plan, arrays: HostArrays, page_tokens: int, first_exact_page: int) -> None:
    """Fill the first entries of zeroed `arrays`, which may be larger than the plan. Exact pages count from 0 there."""
    token = row = seal = 0
    for index, span in enumerate(plan.spans):
        count, start, first_page = len(span.tokens), span.start, span.start // page_tokens
        end = token + count
        arrays.token_ids[token:end] = span.tokens
        written = [page - first_exact_page for page in span.own_pages or span.pages[first_page:]]
        _place(arrays, token, start, count, written, page_tokens)
        wanted = _num_rows(span)
        arrays.logit_rows[row : row + wanted] = range(token + span.logits_from, end)
        row += wanted
        token = end
        arrays.query_starts[index + 1] = token
        arrays.context_lengths[index] = start + count
        pages = span.pages[
            : -(-(start + count) // page_tokens)
        ]  # a page that is not sealed yet may be missing
        arrays.page_table[index, : len(pages)] = pages
        if span.own_pages:
            seal = _seal(arrays, index, seal, span, written, page_tokens)
    arrays.num_seals[0] = seal


def _place(
    arrays: HostArrays, token: int, start: int, count: int, written: list[int], page_tokens: int
) -> None:
    """Positions and slots of a span of `count` tokens from position `start`, whose pages are `written`."""
    if count == 1:  # a decoding sequence: no array is worth its making
        arrays.positions[token] = start
        arrays.slots[token] = written[0] * page_tokens + start % page_tokens
        return
    positions: NDArray[np.int64] = np.arange(start, start + count)
    arrays.positions[token : token + count] = positions
    pages = np.array(written)[positions // page_tokens - start // page_tokens]
    arrays.slots[token : token + count] = pages * page_tokens + positions % page_tokens


def _seal(
    arrays: HostArrays, index: int, seal: int, span: Span, own_pages: list[int], page_tokens: int
) -> int:
    """The exact pages of a span, and which of them it fills; returns how many seals there are now."""
    arrays.own_pages[index, : len(own_pages)] = own_pages
    filled = span.filled(page_tokens)
    end = seal + len(filled)
    arrays.sources[seal:end] = own_pages[: len(filled)]
    arrays.targets[seal:end] = span.pages[filled.start : filled.stop]
    return end
