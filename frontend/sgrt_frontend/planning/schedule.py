"""What is known of runs before they begin: the items of a batch in the order to run them, or one body alone."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from sgrt_frontend.backend import Backend
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.events import Event
from sgrt_frontend.execution import Body, Opened, open_run
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
    """Plans the items of a batch as they are needed, unless the options want none of it."""

    bodies: Sequence[Body]
    encoder: Encoder
    options: RunOptions
    pool: Executor
    _drafts: Drafts = field(init=False)

    def __post_init__(self) -> None:
        self._drafts = Drafts(self.encoder.backend, self.options, self.pool)

    async def items(self) -> AsyncIterator[PlannedItem]:
        """Every item once: those with a common prefix together, others in their own order."""
        for start in range(0, len(self.bodies), _WINDOW):
            for item in await self._window(range(start, min(start + _WINDOW, len(self.bodies)))):
                yield item

    async def _window(self, indices: range) -> list[PlannedItem]:
        items: list[PlannedItem] = []
        for index in indices:
            body = self.bodies[index]
            drafted = await self._drafts.draft(body) if self.options.planned else None
            blueprint, texts = drafted or (None, [])
            items.append(PlannedItem(index=index, body=body, blueprint=blueprint, texts=texts))
        if not any(item.blueprint for item in items):
            return items
        outlook = await _outlook(items, self.encoder, self.options)
        return [
            replace(items[place], outlook=outlook.of(place) if items[place].blueprint else None)
            for place in outlook.order
        ]


async def open_planned(
    body: Body,
    options: RunOptions,
    backend: Backend,
    *,
    listener: Callable[[Event], None] | None = None,
) -> Opened[Any]:
    """Make the run of one body on the running loop, with what is known of its calls if it is static and branches.

    The body itself is what runs then; that it was traced on stand-ins before is seen by nobody.
    """
    encoder = Encoder(backend)
    opened = open_run(body, options, backend, encoder=encoder, listener=listener)
    if options.planned:
        with ThreadPoolExecutor(1, thread_name_prefix="sgrt-body") as pool:
            drafted = await Drafts(encoder.backend, options, pool).draft(body)
        if drafted is not None and drafted[0].branches:
            item = PlannedItem(index=0, body=body, blueprint=drafted[0], texts=drafted[1])
            opened.run.outlook = (await _outlook([item], encoder, options)).of(0)
    return opened


async def _outlook(items: Sequence[PlannedItem], encoder: Encoder, options: RunOptions) -> BatchOutlook:
    units = Units()
    planning = Encoder(PlanBackend(encoder.backend, units))
    return BatchOutlook([await _outlined(item, planning, units, options) for item in items], units)


async def _outlined(item: PlannedItem, encoder: Encoder, units: Units, options: RunOptions) -> OutlinedItem:
    """The calls of an item: its blueprint run on stand-ins for what a model would say."""
    if item.blueprint is None:
        return OutlinedItem(calls=(), before={})
    backend = encoder.backend
    caller = PlanCaller(backend, units, Oracle())
    run, state = open_run(item.body, options, backend, encoder=encoder, caller=caller, seed=0)
    with contextlib.suppress(Exception):  # what is wrong with the item is told when it runs
        await item.blueprint.run(run, state, item.texts)
    before = {call.label: call.before for call in run.trace.calls}
    return OutlinedItem(calls=tuple(caller.calls), before=before)
