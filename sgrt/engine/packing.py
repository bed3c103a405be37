"""From a plan's lists to the numbers of one forward pass, and on to its arrays."""

from __future__ import annotations

from dataclasses import replace

from sgrt.engine.plan import Plan, Span
from sgrt.engine.step_arrays import HostArrays, StepSize
from sgrt.model.native_step import SealNumbers, StepNumbers
from sgrt_kernels.ops.tree_attention import PlannedTree


def numbers_of(plan: Plan, page_tokens: int, first_exact_page: int, *, is_sealed: bool) -> StepNumbers:
    """The plan's pass in plain ints. Exact pages count from 0 there."""
    tokens: list[int] = []
    positions: list[int] = []
    slots: list[int] = []
    rows: list[int] = []
    starts = [0]
    contexts: list[int] = []
    tables: list[list[int]] = []
    for span in plan.spans:
        start, count, first_row = span.start, len(span.tokens), len(tokens)
        end, first_page = start + count, start // page_tokens
        written = span.own_pages or span.pages[first_page:]
        tokens += span.tokens
        positions += range(start, end)
        slots += [
            (written[at // page_tokens - first_page] - first_exact_page) * page_tokens + at % page_tokens
            for at in range(start, end)
        ]
        rows += range(first_row + span.logits_from, first_row + count)
        starts.append(first_row + count)
        contexts.append(end)
        tables.append(span.pages)
    return StepNumbers(
        token_ids=tokens,
        positions=positions,
        slots=slots,
        logit_rows=rows,
        query_starts=starts,
        context_lengths=contexts,
        page_tables=tables,
        seals=_seals(plan, page_tokens, first_exact_page) if is_sealed else None,
    )


def _seals(plan: Plan, page_tokens: int, first_exact_page: int) -> SealNumbers:
    """The exact pages of every span, and which of them it fills."""
    numbers = SealNumbers(sources=[], targets=[], own_pages=[])
    for span in plan.spans:
        filled = span.filled(page_tokens)
        exact = [page - first_exact_page for page in span.own_pages]
        numbers.own_pages.append(exact)
        numbers.sources += exact[: len(filled)]
        numbers.targets += span.pages[filled.start : filled.stop]
    return numbers


def size_of(numbers: StepNumbers, page_tokens: int, tree: PlannedTree | None = None) -> StepSize:
    """The size of a pass."""
    seals = numbers.seals
    return StepSize(
        tokens=len(numbers.token_ids),
        sequences=len(numbers.context_lengths),
        pages=max(1, -(-max(numbers.context_lengths, default=0) // page_tokens)),
        rows=len(numbers.logit_rows),
        seals=0 if seals is None else len(seals.sources),
        own_pages=0 if seals is None else max(1, *map(len, seals.own_pages), 1),
        singles=_num_single(numbers.query_starts),
        items=0 if tree is None else tree.num_slots,
        rows_per_item=0 if tree is None else tree.rows_per_item,
    )


def _num_single(query_starts: list[int]) -> int:
    """How many sequences of one token come before all others."""
    return next(
        (index for index, start in enumerate(query_starts[1:]) if start > index + 1), len(query_starts) - 1
    )


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


def pack(numbers: StepNumbers, arrays: HostArrays, tree: PlannedTree | None = None) -> None:
    """Fill the first entries of zeroed `arrays`, which may be larger than the pass."""
    tokens, sequences = len(numbers.token_ids), len(numbers.context_lengths)
    arrays.token_ids[:tokens] = numbers.token_ids
    arrays.positions[:tokens] = numbers.positions
    arrays.slots[:tokens] = numbers.slots
    arrays.logit_rows[: len(numbers.logit_rows)] = numbers.logit_rows
    arrays.query_starts[: sequences + 1] = numbers.query_starts
    arrays.context_lengths[:sequences] = numbers.context_lengths
    columns = arrays.page_table.shape[1]
    for index, pages in enumerate(numbers.page_tables):
        arrays.page_table[index, : len(pages)] = pages[:columns]
    if numbers.seals is not None:
        _pack_seals(numbers.seals, arrays)
    if tree is not None:
        _pack_tree(tree, arrays)


def _pack_seals(seals: SealNumbers, arrays: HostArrays) -> None:
    count = len(seals.sources)
    arrays.num_seals[0] = count
    arrays.sources[:count] = seals.sources
    arrays.targets[:count] = seals.targets
    for index, pages in enumerate(seals.own_pages):
        arrays.own_pages[index, : len(pages)] = pages


def _pack_tree(tree: PlannedTree, arrays: HostArrays) -> None:
    for index, item in enumerate(tree.items):
        arrays.items[index] = item.numbers
        arrays.item_rows[index, : len(item.rows)] = item.rows
    arrays.first_pages[: len(tree.first_pages)] = tree.first_pages
    starts, partials = tree.merges()
    arrays.merge_starts[: len(starts)] = starts
    arrays.merge_starts[len(starts) :] = starts[-1]  # padding has nothing to merge
    arrays.merge_partials[: len(partials)] = partials
