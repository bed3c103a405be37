"""Cuts a tree of shared prefixes into work items, on the host, once per step for all layers.

item     a piece of one run of tokens, and a block of the query rows that see it
partial  what one row of one item leaves: an output and the log2 of its sum of exponentials

row 0:  [ system prompt ........ ][ question A ]      items of the prompt serve rows 0, 1, 2 at once;
row 1:  [ system prompt ........ ][ question B ]      `merge_starts` and `merge_partials` list, row by row,
row 2:  [ system prompt ........ ][ question B ]      the partials that make up its result
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt_kernels.buckets import bucket

ROWS_PER_ITEM = 16
TOKENS_PER_ITEM = 1024
_SMALLEST_BUCKET = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRun:
    """Tokens that lie one after the other in pages, and the query rows that see all of them."""

    pages: Sequence[int]
    num_tokens: int
    rows: Sequence[int]
    first_offset: int = 0  # of the first token, in the first page


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan:
    """Work items of one step, longest first, padded with empty ones to a bucket size for CUDA graphs."""

    pages: Tensor  # [pages] int32, page ids of all runs
    rows: Tensor  # [rows] int32, query rows of all items
    first_pages: Tensor  # [items] int32, where an item's pages start in `pages`
    first_tokens: Tensor  # [items] int32, counted from the start of that page
    token_counts: Tensor  # [items] int32; 0 in padding
    first_rows: Tensor  # [items] int32, where an item's rows start in `rows`
    row_counts: Tensor  # [items] int32
    first_partials: Tensor  # [items] int32, partial of the item's first row
    merge_starts: Tensor  # [query rows + 1] int32, into merge_partials
    merge_partials: Tensor  # [partials] int32, grouped by query row, in the order of the context
    num_partials: int
    rows_per_item: int
    page_tokens: int
    tokens_read: int  # keys (and values) read by all items together
    tokens_read_flat: int  # the same without sharing

    @property
    def num_items(self) -> int:
        """Items, padding included."""
        return self.token_counts.shape[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    first_page: int
    first_token: int
    token_count: int
    first_row: int
    row_count: int
    first_partial: int


def plan_tree(
    runs: Sequence[TreeRun],
    *,
    num_rows: int,
    page_tokens: int,
    device: torch.device | str = "cpu",
    rows_per_item: int = ROWS_PER_ITEM,
    tokens_per_item: int = TOKENS_PER_ITEM,
) -> TreePlan:
    """Cut `runs` into items of at most `rows_per_item` rows and `tokens_per_item` tokens.

    A row sees the runs that name it, in the order given. Runs without tokens or rows are dropped. Raises ValueError
    for a run with too few pages or a row outside `num_rows`.
    """
    pages: list[int] = []
    rows: list[int] = []
    items: list[_Item] = []
    partials_of: list[list[int]] = [[] for _ in range(num_rows)]
    num_partials = 0
    for run in runs:
        _check(run, num_rows, page_tokens)
        first_page = len(pages)
        pages += run.pages
        for row_start in range(0, len(run.rows), rows_per_item):
            block = list(run.rows[row_start : row_start + rows_per_item])
            first_row = len(rows)
            rows += block
            for token in range(0, run.num_tokens, tokens_per_item):
                items.append(
                    _Item(
                        first_page=first_page,
                        first_token=run.first_offset + token,
                        token_count=min(tokens_per_item, run.num_tokens - token),
                        first_row=first_row,
                        row_count=len(block),
                        first_partial=num_partials,
                    )
                )
                for index, row in enumerate(block):
                    partials_of[row].append(num_partials + index)
                num_partials += len(block)
    tokens_read = sum(item.token_count for item in items)
    items.sort(key=lambda item: -item.token_count * item.row_count)  # long ones first: the tail balances
    items += [_padding(num_partials)] * (bucket(len(items), _SMALLEST_BUCKET) - len(items))
    starts = [0]
    for partials in partials_of:
        starts.append(starts[-1] + len(partials))

    def tensor(values: Sequence[int]) -> Tensor:
        return torch.tensor(values or [0], dtype=torch.int32, device=device)

    return TreePlan(
        pages=tensor(pages),
        rows=tensor(rows),
        first_pages=tensor([item.first_page for item in items]),
        first_tokens=tensor([item.first_token for item in items]),
        token_counts=tensor([item.token_count for item in items]),
        first_rows=tensor([item.first_row for item in items]),
        row_counts=tensor([item.row_count for item in items]),
        first_partials=tensor([item.first_partial for item in items]),
        merge_starts=tensor(starts),
        merge_partials=tensor([partial for partials in partials_of for partial in partials]),
        num_partials=num_partials,
        rows_per_item=rows_per_item,
        page_tokens=page_tokens,
        tokens_read=tokens_read,
        tokens_read_flat=sum(run.num_tokens * len(run.rows) for run in runs),
    )


def _check(run: TreeRun, num_rows: int, page_tokens: int) -> None:
    if run.first_offset + run.num_tokens > len(run.pages) * page_tokens:
        raise ValueError(
            f"plan_tree: {run.num_tokens} tokens from offset {run.first_offset} do not fit {len(run.pages)} pages of "
            f"{page_tokens}: name every page of the run"
        )
    if any(not 0 <= row < num_rows for row in run.rows):
        raise ValueError(f"plan_tree: a run names rows {list(run.rows)}, but the batch has {num_rows}")


def _padding(num_partials: int) -> _Item:
    return _Item(
        first_page=0, first_token=0, token_count=0, first_row=0, row_count=0, first_partial=num_partials
    )
