"""The items of a batch in the order to run them, each with what is known of it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from sgrt_frontend.backend import Backend
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.execution import Body, open_run
from sgrt_frontend.options import RunOptions
from sgrt_frontend.planning.backend import PlanBackend, PlanCaller
from sgrt_frontend.planning.blueprint import Blueprint
from sgrt_frontend.planning.drafting import Drafts
from sgrt_frontend.planning.oracle import Oracle
from sgrt_frontend.planning.outlook import BatchOutlook, ItemOutlook, OutlinedItem
from sgrt_frontend.planning.units import Units

# So many items are planned together; a batch may have a million.
_WINDOW = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedItem:
    """An item of a batch. Without a `blueprint` its body has to be run; `texts` are what the blueprint fills in."""

    index: int
    body: Body
    blueprint: Blueprint | None = None
    texts: Sequence[str] = ()
    outlook: ItemOutlook | None = None


@dataclass(slots=True)
class Schedule:
    """Plans the items of a batch as they are needed."""

    bodies: Sequence[Body]
    backend: Backend
    encoder: Encoder
    options: RunOptions
    pool: Executor
    _drafts: Drafts = field(init=False)

    def __post_init__(self) -> None:
        self._drafts = Drafts(self.backend, self.options, self.pool)

    async def items(self) -> AsyncIterator[PlannedItem]:
        """Every item once: those with a common prefix together, others in their own order."""
        for start in range(0, len(self.bodies), _WINDOW):
            for item in await self._window(range(start, min(start + _WINDOW, len(self.bodies)))):
                yield item

    async def _window(self, indices: range) -> list[PlannedItem]:
        items: list[PlannedItem] = []
        for index in indices:
            body = self.bodies[index]
            drafted = await self._drafts.draft(body)
            blueprint, texts = drafted or (None, [])
            items.append(PlannedItem(index=index, body=body, blueprint=blueprint, texts=texts))
        if not any(item.blueprint for item in items):
            return items
        units = Units()
        encoder = Encoder(PlanBackend(self.encoder.backend, units))
        outlined = [await self._outlined(item, encoder, units) for item in items]
        outlook = BatchOutlook(outlined, units)
        return [
            PlannedItem(
                index=items[place].index,
                body=items[place].body,
                blueprint=items[place].blueprint,
                texts=items[place].texts,
                outlook=outlook.of(place) if items[place].blueprint else None,
            )
            for place in outlook.order
        ]

    async def _outlined(self, item: PlannedItem, encoder: Encoder, units: Units) -> OutlinedItem:
        """The calls of an item: its blueprint run on stand-ins for what a model would say."""
        if item.blueprint is None:
            return OutlinedItem(calls=(), before={})
        backend = encoder.backend
        caller = PlanCaller(backend, units, Oracle())
        run, state = open_run(item.body, self.options, backend, encoder=encoder, caller=caller, seed=0)
        with contextlib.suppress(Exception):  # what is wrong with the item is told when it runs
            await item.blueprint.run(run, state, item.texts)
        before = {call.label: call.before for call in run.trace.calls}
        return OutlinedItem(calls=tuple(caller.calls), before=before)
