"""Races between branches: the first good answer wins, the others are cancelled at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.expression import Value, Var
from sgrt_frontend.slot import Slot
from sgrt_frontend.source import caller_source
from sgrt_frontend.state import State

Accept = Callable[[Value], bool]


def first_of(states: Iterable[State], variable: str | Var[Any], *, accept: Accept | None = None) -> State:
    """Wait for the first state whose `variable` is there (and accepted); cancel the other states.

    Raises:
        ProgramError: every state failed (the last failure), or `accept` raised.
        InvalidRequest: no state's value was accepted.
    """
    racers = _racers(states)
    slot = _race(racers, variable, accept)
    return racers[cast("int", racers[0]._run.wait(slot, awaited="await sgrt.afirst_of(...)"))]


async def afirst_of(
    states: Iterable[State], variable: str | Var[Any], *, accept: Accept | None = None
) -> State:
    """Await the first state whose `variable` is there (and accepted); cancel the other states."""
    racers = _racers(states)
    return racers[cast("int", await _race(racers, variable, accept).get())]


def _racers(states: object) -> list[State]:
    racers: list[State] = []
    for racer in states if isinstance(states, Iterable) else (states,):
        if not isinstance(racer, State):
            raise InvalidRequest(
                f"states: {racer!r:.80} is no state; a race is between states and for one variable, "
                'as in first_of(s.fork(2), "x")',
                param="states",
            )
        racers.append(racer)
    if not racers:
        raise InvalidRequest("states: a race needs at least one state", param="states")
    return racers


def _race(states: list[State], variable: str | Var[Any], accept: Accept | None) -> Slot:
    run = states[0]._run
    winner = Slot("first_of", caller_source())
    slots = [state._slot(variable) for state in states]

    async def race() -> None:
        try:
            index = await _first(slots, accept)
        except Exception as error:  # noqa: BLE001 - a state's failure or what `accept` raised, for whoever waits
            winner.fail(error)
            return
        for other, state in enumerate(states):
            if other != index:
                state._scope.cancel()
        winner.succeed(index, None)

    run.on_loop(lambda: run.spawn(race(), scope=run.scope, slot=winner))
    return winner


async def _first(slots: list[Slot], accept: Accept | None) -> int:
    tasks = [asyncio.create_task(slot.get()) for slot in slots]
    waiting = {task: index for index, task in enumerate(tasks)}
    last: BaseException | None = None
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in sorted(done, key=waiting.__getitem__):
                index = waiting.pop(task)
                last = task.exception() or last
                if task.exception() is None and (accept is None or accept(task.result())):
                    return index
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # how the losers end is nobody's business
    raise last or InvalidRequest(f"none of the {len(slots)} values was accepted", param="accept")
