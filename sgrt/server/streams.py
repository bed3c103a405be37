"""Several streams as one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TypeVar

_Item = TypeVar("_Item")
_QUEUE_ITEMS = 64


async def merge(sources: Sequence[AsyncGenerator[_Item]]) -> AsyncGenerator[tuple[int, _Item]]:
    """(number of the source, item) as they come. The first failure ends all; closing closes all."""
    if len(sources) == 1:
        async with aclosing(sources[0]) as only:
            async for item in only:
                yield 0, item
        return
    queue: asyncio.Queue[tuple[int, _Item] | Exception | None] = asyncio.Queue(_QUEUE_ITEMS)
    tasks = [asyncio.ensure_future(_pump(number, source, queue)) for number, source in enumerate(sources)]
    try:
        remaining = len(tasks)
        while remaining:
            entry = await queue.get()
            if entry is None:
                remaining -= 1
            elif isinstance(entry, Exception):
                raise entry
            else:
                yield entry
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(
    number: int,
    source: AsyncGenerator[_Item],
    queue: asyncio.Queue[tuple[int, _Item] | Exception | None],
) -> None:
    try:
        async with aclosing(source) as items:
            async for item in items:
                await queue.put((number, item))
    except Exception as error:  # noqa: BLE001 handed to the reader, which raises it
        await queue.put(error)
    else:
        await queue.put(None)
