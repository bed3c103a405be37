"""The numbers of one step as the CPU kernels read them, in two arrays of C integers."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain

from sgrt_kernels.native.structures import SealsStruct, StepStruct

_LONG, _SHORT = 8, 4  # bytes of C's int64_t and int32_t


@dataclass(slots=True, kw_only=True)
class SealNumbers:
    """Which exact pages a step over sealed pages fills, and those of every sequence: `sgrt_kernels.layout.PageSeals`."""

    sources: list[int]
    targets: list[int]
    own_pages: list[list[int]]  # by sequence


@dataclass(slots=True, kw_only=True)
class StepNumbers:
    """The ragged batch of `sgrt.model.batch`, as lists of ints; see there what each means.

    For a step of one token a tensor for each list takes longer than a tenth of the layers.
    """

    token_ids: list[int]
    positions: list[int]
    slots: list[int]
    logit_rows: list[int]
    query_starts: list[int]
    context_lengths: list[int]
    page_tables: list[list[int]]  # by sequence
    seals: SealNumbers | None = None

    def write_into(self, step: StepStruct, seals: SealsStruct) -> tuple[array[int], ...]:
        """Point the structures at arrays with these numbers; they must live as long as those are used."""
        tokens, rows, sequences = len(self.token_ids), len(self.logit_rows), len(self.context_lengths)
        width, table = _table(self.page_tables)
        long = array("q", self.token_ids + self.positions + self.slots + self.logit_rows)
        short = array("i", self.query_starts + self.context_lengths + table)
        assert long.itemsize == _LONG and short.itemsize == _SHORT, "C's integers have other sizes here"
        address, _ = long.buffer_info()
        step.token_ids = address
        step.positions = address + _LONG * tokens
        step.slots = address + _LONG * 2 * tokens
        step.logit_rows = address + _LONG * 3 * tokens
        address, _ = short.buffer_info()
        step.query_starts = address
        step.context_lengths = address + _SHORT * (sequences + 1)
        step.page_table = address + _SHORT * (2 * sequences + 1)
        step.tokens, step.sequences, step.rows, step.max_pages = tokens, sequences, rows, width
        return (long, short) if self.seals is None else (long, short, *_write_seals(self.seals, seals))


def _write_seals(numbers: SealNumbers, seals: SealsStruct) -> tuple[array[int], array[int]]:
    width, table = _table(numbers.own_pages)
    long, short = array("q", [*numbers.sources, *numbers.targets]), array("i", table)
    seals.count, seals.max_own_pages = len(numbers.sources), width
    address, _ = long.buffer_info()
    seals.sources = address
    seals.targets = address + _LONG * seals.count
    seals.own_pages, _ = short.buffer_info()
    return long, short


def _table(rows: list[list[int]]) -> tuple[int, list[int]]:
    """The longest row's length, 1 at least, and all rows filled up to it with zeros."""
    if len(rows) == 1 and rows[0]:
        return len(rows[0]), rows[0]
    width = max(map(len, rows), default=1) or 1
    filled = (row if len(row) == width else [*row, *[0] * (width - len(row))] for row in rows)
    return width, list(chain.from_iterable(filled))
