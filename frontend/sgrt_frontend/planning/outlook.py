"""What is known of the calls of a batch before they are made: the hints that go with each of them."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sgrt_frontend.call import CallPlan, Share
from sgrt_frontend.planning.backend import PlannedCall
from sgrt_frontend.planning.critical_path import remaining_seconds
from sgrt_frontend.planning.simulation import item_order
from sgrt_frontend.planning.tree import Part, PlanTree
from sgrt_frontend.planning.units import Units
from sgrt_frontend.rope import Rope

# A call names so many of the beginnings it shares, the longest ones: whoever holds a beginning holds all shorter ones.
_MOST_SHARES = 8


class Beginning(NamedTuple):
    """A beginning that a call has in common with others: its length in planned tokens, and the part that ends there."""

    num_tokens: int
    part: Part


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlinedItem:
    """The planned calls of an item, and by label the prompts of those calls in parts."""

    calls: tuple[PlannedCall, ...]
    before: dict[str, Rope]


@dataclass(slots=True)
class BatchOutlook:
    """The calls of several items: which beginnings they share, and in which order to begin the items."""

    items: Sequence[OutlinedItem]
    units: Units
    order: list[int] = field(init=False)
    group: str = field(init=False, default_factory=lambda: uuid.uuid4().hex[:12])
    _tree: PlanTree = field(default_factory=PlanTree)
    _names: dict[int, str] = field(default_factory=dict)
    _uses: Counter[int] = field(default_factory=Counter)  # by part: outputs of calls that name it

    def __post_init__(self) -> None:
        calls = [call for item in self.items for call in item.calls]
        for call in calls:
            self._tree.insert(call.kept)
            for _ in range(call.samples - 1):
                self._tree.insert(call.prompt)
        for call in calls:
            for beginning in self._beginnings(call):
                self._uses[id(beginning.part)] += call.samples
        self._names = {id(part): f"{self.group}.{number}" for number, part in enumerate(self._tree.parts())}
        self.order = item_order([item.calls for item in self.items], self._tree)

    def of(self, item: int) -> ItemOutlook:
        """The outlook of one item's run."""
        return ItemOutlook(self, self.items[item])

    def shares(self, call: PlannedCall, planned: Sequence[Rope], actual: Sequence[Rope]) -> list[Share]:
        """What a call shares, shortest first; its prompt was `planned` and turned out to be `actual`, in parts."""
        beginnings = [made for made in self._beginnings(call) if self._uses[id(made.part)] > 1]
        ends = _aligned([made.num_tokens for made in beginnings], planned, actual)
        return [
            Share(name=self._names[id(made.part)], num_tokens=end, uses=self._uses[id(made.part)])
            for made, end in zip(beginnings, ends, strict=True)
            if end != 0
        ]

    def _beginnings(self, call: PlannedCall) -> list[Beginning]:
        found: list[Beginning] = []
        end = 0
        for part in self._tree.path(call.kept):
            end += len(part.tokens)
            if part.uses < 2:
                break
            found.append(Beginning(end, part))
        return found[-_MOST_SHARES:]


class ItemOutlook:
    """What is known of the calls of one item."""

    def __init__(self, batch: BatchOutlook, item: OutlinedItem) -> None:
        self._batch = batch
        self._item = item
        self._calls = {call.label: call for call in item.calls}
        self._seconds = remaining_seconds(item.calls, batch.units)

    def call_plan(self, label: str, before: Rope) -> CallPlan | None:
        """The hints for a call whose prompt turned out to be `before`."""
        call = self._calls.get(label)
        if call is None:
            return None
        planned, actual = self._item.before[label].pieces(), before.pieces()
        if len(planned) != len(actual):
            return None
        shares = self._batch.shares(call, planned, actual)
        return CallPlan(shares=tuple(shares), path_s=self._seconds[label], group=self._batch.group)


def _aligned(ends: Sequence[int], planned: Sequence[Rope], actual: Sequence[Rope]) -> list[int | None]:
    """Where beginnings of planned tokens end in the prompt; None: behind it; 0: nobody can tell. `ends` rise.

    Pieces correspond. In one with an unknown run in it, a place before the run is found from the piece's
    beginning, one behind it from its end.
    """
    found: list[int | None] = []
    start = real = 0
    for piece, real_piece in zip(planned, actual, strict=True):
        size = len(piece.tokens)
        while len(found) < len(ends) and ends[len(found)] <= start + size:
            found.append(_aligned_within(piece, ends[len(found)] - start, real, len(real_piece.tokens)))
        start += size
        real += len(real_piece.tokens)
    return found + [None] * (len(ends) - len(found))


def _aligned_within(piece: Rope, end: int, real: int, real_size: int) -> int:
    """Of a planned piece whose real one has `real_size` tokens from position `real` on: where its first `end` tokens end."""
    before, behind = piece.tokens[:end], piece.tokens[end:]
    if min(before, default=0) >= 0:
        return real + len(before)
    if min(behind, default=0) >= 0:
        return real + real_size - len(behind)
    if len(behind) == 1 and max(before) < 0:  # an output, all but its last token
        return max(0, real + real_size - 1)
    return 0
