"""What is known of the calls of a batch before they are made: the hints that go with each of them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from sgrt_frontend.call import CallPlan, Share
from sgrt_frontend.planning.backend import PlannedCall
from sgrt_frontend.planning.cost import CostModel
from sgrt_frontend.planning.critical_path import remaining_seconds
from sgrt_frontend.planning.simulation import item_order
from sgrt_frontend.planning.tree import Part, PlanTree
from sgrt_frontend.planning.units import Units
from sgrt_frontend.rope import Rope


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
    cost: CostModel = field(default_factory=CostModel)
    order: list[int] = field(init=False)
    _tree: PlanTree = field(default_factory=PlanTree)
    _names: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.items:
            for call in item.calls:
                self._tree.insert(call.kept)
                for _ in range(call.samples - 1):
                    self._tree.insert(call.prompt)
        group = uuid.uuid4().hex[:12]
        self._names = {id(part): f"{group}.{number}" for number, part in enumerate(self._tree.parts())}
        self.order = item_order([item.calls for item in self.items], self._tree)

    def of(self, item: int) -> ItemOutlook:
        """The outlook of one item's run."""
        return ItemOutlook(self, self.items[item])

    def shares(self, call: PlannedCall) -> list[tuple[int, Part, str]]:
        """What a call shares: the length in planned tokens, the part that ends there, its name."""
        found: list[tuple[int, Part, str]] = []
        end = 0
        for part in self._tree.path(call.kept):
            end += len(part.tokens)
            if part.uses < 2:
                break
            found.append((end, part, self._names[id(part)]))
        return found


class ItemOutlook:
    """What is known of the calls of one item."""

    def __init__(self, batch: BatchOutlook, item: OutlinedItem) -> None:
        self._batch = batch
        self._item = item
        self._calls = {call.label: call for call in item.calls}
        self._seconds = remaining_seconds(item.calls, batch.units, self._size, batch.cost)

    def call_plan(self, label: str, before: Rope) -> CallPlan | None:
        """The hints for a call whose prompt turned out to be `before`."""
        call = self._calls.get(label)
        if call is None:
            return None
        planned, actual = self._item.before[label].pieces(), before.pieces()
        if len(planned) != len(actual):
            return None
        shares: list[Share] = []
        for end, part, name in self._batch.shares(call):
            num_tokens = _aligned(end, planned, actual)
            if num_tokens == 0:
                continue
            shares.append(Share(name=name, num_tokens=num_tokens, uses=part.uses))
        return CallPlan(shares=tuple(shares), path_s=self._seconds[label])

    def _size(self, tokens: tuple[int, ...]) -> int:
        return self._batch.units.size(tokens).high


def _aligned(end: int, planned: Sequence[Rope], actual: Sequence[Rope]) -> int | None:
    """Where the first `end` planned tokens end in the prompt; None: behind it; 0: nobody can tell.

    Pieces correspond. In one with an unknown run in it, a place before the run is found from the piece's
    beginning, one behind it from its end.
    """
    start = real = 0
    for piece, real_piece in zip(planned, actual, strict=True):
        size = len(piece.tokens)
        if end <= start + size:
            before, behind = piece.tokens[: end - start], piece.tokens[end - start :]
            if min(before, default=0) >= 0:
                return real + len(before)
            if min(behind, default=0) >= 0:
                return real + len(real_piece.tokens) - len(behind)
            if len(behind) == 1 and max(before) < 0:  # an output, all but its last token
                return max(0, real + len(real_piece.tokens) - 1)
            return 0
        start += size
        real += len(real_piece.tokens)
    return None
