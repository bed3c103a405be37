"""Many runs of one program: bounded concurrency, progress, and errors that stay with their item."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Usage
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.errors import SgrtError
from sgrt_frontend.execution import Body, execute, open_run
from sgrt_frontend.frames import keep_user_frames
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.numbers import require_count
from sgrt_frontend.options import RunOptions
from sgrt_frontend.planning.schedule import PlannedItem, Schedule
from sgrt_frontend.progress import Progress
from sgrt_frontend.run import derived_seed
from sgrt_frontend.state import State
from sgrt_frontend.totals import NOTHING_USED, added

R = TypeVar("R")


_SHOWN_FAILURES = 3


class BatchError(SgrtError):
    """Some items of a batch failed. `states` are those of all items; the first failure is the cause."""

    def __init__(self, message: str, *, states: Sequence[State[Any]]) -> None:
        super().__init__(message)
        self.states = tuple(states)


def total_usage(states: Iterable[State[Any]]) -> Usage:
    """Tokens of all calls of several runs."""
    return functools.reduce(added, (state.usage for state in states), NOTHING_USED)


class Batch(Generic[R]):
    """A batch that has not run yet."""

    def __init__(self, name: str, items: Sequence[Body], options: RunOptions, backend: Backend) -> None:
        self._name = name
        self._items = items
        self._options = options
        self._backend = backend
        self._encoder = Encoder(backend)

    def run(self, *, concurrency: int, progress: bool | None, raise_errors: bool) -> list[State[R]]:
        """Run all items on a loop of its own."""
        with LoopThread() as thread:
            return thread.call(
                self.arun(concurrency=concurrency, progress=progress, raise_errors=raise_errors)
            )

    async def arun(self, *, concurrency: int, progress: bool | None, raise_errors: bool) -> list[State[R]]:
        """Run all items, at most `concurrency` at a time.

        Items with a common prefix go together. A thread runs the body of an item that is neither async nor static.
        """
        require_count(concurrency, "concurrency")
        turnstile = asyncio.Semaphore(concurrency)
        states: list[State[R] | None] = [None] * len(self._items)
        with (
            Progress(self._name, len(self._items), is_shown=progress) as bar,
            ThreadPoolExecutor(concurrency, thread_name_prefix="sgrt-body") as pool,
        ):

            async def one(item: PlannedItem) -> None:
                try:
                    state = states[item.index] = await self._run_item(item, pool)
                finally:
                    turnstile.release()
                bar.advance(is_failure=state.error is not None)

            schedule = Schedule(self._items, self._encoder, self._options, pool)
            async with asyncio.TaskGroup() as group:
                async for item in schedule.items():
                    await turnstile.acquire()
                    group.create_task(one(item))
        finished = [state for state in states if state is not None]
        if raise_errors:
            _raise_failures(self._name, finished)
        return finished

    async def _run_item(self, item: PlannedItem, pool: ThreadPoolExecutor) -> State[R]:
        seed = self._options.seed
        if seed is not None:
            seed = derived_seed(seed, f"item {item.index}")
        run, state = open_run(item.body, self._options, self._backend, encoder=self._encoder, seed=seed)
        run.outlook = item.outlook
        with contextlib.suppress(Exception):  # one item's failure is kept in its state
            if item.blueprint is None:
                await execute(run, item.body, state, pool)
            else:
                await item.blueprint.run(run, state, item.texts)
        if state.error is not None:
            keep_user_frames(state.error)
        return state


def _raise_failures(name: str, states: Sequence[State[Any]]) -> None:
    failed = [(index, state.error) for index, state in enumerate(states) if state.error is not None]
    if failed:
        shown = [
            f"item {index}: {type(error).__name__}: {error}" for index, error in failed[:_SHOWN_FAILURES]
        ]
        if len(failed) > len(shown):
            shown.append(f"and {len(failed) - len(shown)} more; `states` of this error has them all")
        raise BatchError(
            "\n  ".join([f"{len(failed)} of {len(states)} items of {name} failed:", *shown]), states=states
        ) from failed[0][1]
