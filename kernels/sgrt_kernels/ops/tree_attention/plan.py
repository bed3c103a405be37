"""Which leading pages the rows of a decode step share, cut into work items: on the host, once for all layers.

Sequences that start from the same prefix of the radix tree name the same pages in the first columns of the page table.
An *item* is a piece of such a run of pages and a block of the rows that see it; what one row of one item leaves, an
output and the log2 of its sum of exponentials, is a *partial*. The rest of each context is decoded as without sharing.

row 0:  [ system prompt ........ ][ question A ]~~~   items of the prompt serve rows 0, 1, 2 at once, those of
row 1:  [ system prompt ........ ][ question B ]~~~   question B rows 1, 2; behind `first_pages` a row goes on alone;
row 2:  [ system prompt ........ ][ question B ]~~~   `merge_starts`, `merge_partials` list each row's partials
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

TOKENS_PER_ITEM = 512
MAX_ITEMS = 256
_FEWEST_SLOTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRun:
    """Pages that two rows or more have in the same columns of their page tables, and in all columns before them."""

    first_page: int  # a column
    num_pages: int
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeItem:
    """A piece of a run and a block of its rows; the pages are those that the first row's table names."""

    first_page: int
    num_pages: int
    rows: tuple[int, ...]

    @property
    def numbers(self) -> tuple[int, int, int]:
        """A row of `TreePlan.items`."""
        return self.first_page, self.num_pages, len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTree:
    """The items of a step, pieces of the same pages side by side, and what of each row's context they cover."""

    items: tuple[TreeItem, ...]
    rows_per_item: int
    first_pages: tuple[int, ...]  # by row: the page where it goes on alone
    pages_saved: int  # that flat decoding would read again

    @property
    def num_slots(self) -> int:
        """Items with padding: few sizes, so that few CUDA graphs serve all trees. Empty items cost next to nothing."""
        return slots_for(len(self.items))

    def merges(self) -> tuple[list[int], list[int]]:
        """`merge_starts` and `merge_partials`: a row's partials in the order of its context.

        A partial is `item * rows_per_item + place in the item`.
        """
        by_row: list[list[int]] = [[] for _ in self.first_pages]
        for number, item in enumerate(self.items):
            for place, row in enumerate(item.rows):
                by_row[row].append(number * self.rows_per_item + place)
        starts, partials = [0], []
        for of_row in by_row:
            partials += of_row
            starts.append(len(partials))
        return starts, partials


@dataclass(frozen=True, slots=True, kw_only=True)
class TreePlan:
    """A planned tree as kernels read it, all int32. What padding holds is not looked at, but for its row counts of 0."""

    items: Tensor  # [slots, 3]: first page, pages, rows
    rows: Tensor  # [slots, rows per item], query rows
    first_pages: Tensor  # [query rows]
    merge_starts: Tensor  # [query rows + 1], into merge_partials
    merge_partials: Tensor  # [slots * rows per item], grouped by query row

    @property
    def rows_per_item(self) -> int:
        """Rows that an item can serve."""
        return self.rows.shape[1]

    @classmethod
    def of(cls, planned: PlannedTree, device: torch.device | str = "cpu") -> TreePlan:
        """`planned` on `device`."""
        slots, width = planned.num_slots, planned.rows_per_item
        starts, partials = planned.merges()
        unused = slots - len(planned.items)
        rows = [item.rows + (0,) * (width - len(item.rows)) for item in planned.items]

        def tensor(values: Sequence[object]) -> Tensor:
            return torch.tensor(values, dtype=torch.int32, device=device)

        return cls(
            items=tensor([*(item.numbers for item in planned.items), *[(0, 0, 0)] * unused]),
            rows=tensor([*rows, *[(0,) * width] * unused]),
            first_pages=tensor(planned.first_pages),
            merge_starts=tensor(starts),
            merge_partials=tensor(partials + [0] * (slots * width - len(partials))),
        )


def slots_for(items: int) -> int:
    """The smallest number of slots that holds `items`."""
    slots = _FEWEST_SLOTS
    while slots < items:
        slots *= 4
    return slots


def shared_runs(tables: Sequence[Sequence[int]], full_pages: Sequence[int]) -> list[SharedRun]:
    """What rows have in common, a run before those it branches into.

    tables: the page numbers of each row; full_pages: how many of the first a row reads whole.
    """
    runs: list[SharedRun] = []
    open_groups = [(tuple(range(len(tables))), 0)]
    while open_groups:
        rows, column = open_groups.pop()
        groups: dict[int, list[int]] = {}
        for row in rows:
            if full_pages[row] > column:
                groups.setdefault(tables[row][column], []).append(row)
        for group in groups.values():
            if len(group) > 1:
                end = min(full_pages[row] for row in group)
                for row in group[1:]:
                    end = _agreement(tables[group[0]], tables[row], column, end)
                runs.append(SharedRun(first_page=column, num_pages=end - column, rows=tuple(group)))
                open_groups.append((tuple(group), end))
    return runs


def plan_tree(
    tables: Sequence[Sequence[int]],
    full_pages: Sequence[int],
    *,
    page_tokens: int,
    rows_per_item: int,
    tokens_per_item: int = TOKENS_PER_ITEM,
    max_items: int = MAX_ITEMS,
) -> PlannedTree:
    """Cut what rows share into items of at most `rows_per_item` rows and, if `max_items` allow, `tokens_per_item` tokens.

    `tables` and `full_pages` as for `shared_runs`. Runs that do not fit `max_items` are left to the rows themselves.
    """
    runs = shared_runs(tables, full_pages)
    pages_per_item = max(1, tokens_per_item // page_tokens)
    longest = max((run.num_pages for run in runs), default=0)
    while _num_items(runs, rows_per_item, pages_per_item) > max_items and pages_per_item < longest:
        pages_per_item *= 2
    items: list[TreeItem] = []
    first_pages, pages_saved = [0] * len(tables), 0
    for run in runs:
        if run.first_page != first_pages[run.rows[0]]:
            continue  # what leads to it was left out
        blocks = [run.rows[at : at + rows_per_item] for at in range(0, len(run.rows), rows_per_item)]
        pieces = range(run.first_page, run.first_page + run.num_pages, pages_per_item)
        if len(items) + len(blocks) * len(pieces) > max_items:
            continue
        end = run.first_page + run.num_pages
        items += [
            TreeItem(first_page=first, num_pages=min(pages_per_item, end - first), rows=block)
            for first in pieces
            for block in blocks
        ]
        for row in run.rows:
            first_pages[row] = end
        pages_saved += (len(run.rows) - len(blocks)) * run.num_pages
    return PlannedTree(
        items=tuple(items),
        rows_per_item=rows_per_item,
        first_pages=tuple(first_pages),
        pages_saved=pages_saved,
    )


def _num_items(runs: Sequence[SharedRun], rows_per_item: int, pages_per_item: int) -> int:
    return sum(-(-len(run.rows) // rows_per_item) * -(-run.num_pages // pages_per_item) for run in runs)


def _agreement(one: Sequence[int], other: Sequence[int], start: int, end: int) -> int:
    """Up to which column, `end` at most, the tables are alike; they are at `start`."""
    if one[start:end] == other[start:end]:
        return end
    alike, apart = start + 1, end
    while apart - alike > 1:
        middle = (alike + apart) // 2
        if one[alike:middle] == other[alike:middle]:
            alike = middle
        else:
            apart = middle
    return alike
