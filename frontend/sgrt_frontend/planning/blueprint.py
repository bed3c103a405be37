"""The steps of a static program: what its body does whatever its texts and its model say.

A body that only appends, forks and joins does the same for every item of a batch. It is traced once, with stand-ins for
text arguments and generated values, and its steps are taken for every item: no body and no thread per item.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sgrt_frontend.chain import Link, Piece
from sgrt_frontend.errors import SgrtError
from sgrt_frontend.expression import Expression
from sgrt_frontend.rope import Rope
from sgrt_frontend.run import Run
from sgrt_frontend.slot import Planned, Slot
from sgrt_frontend.source import Source
from sgrt_frontend.stand_in import MARKER, mentions_stand_in
from sgrt_frontend.state import State
from sgrt_frontend.step import Step
from sgrt_frontend.turns import Turns


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedStep:
    """A step, and the number of the step it goes on from (0: the beginning; step number n is `steps[n - 1]`)."""

    before: int
    step: Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable at the end: the value of step `step`, a list of other variables', or a value with stand-ins in it."""

    name: str
    source: Source
    step: int | None = None
    parts: tuple[Variable, ...] | None = None
    value: object = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Blueprint:
    """What a program does, and what its state is at the end.

    Stand-ins in texts: number n is the argument text `arguments[n]`, or sample `samples[n][1]` of the call of
    step `samples[n][0]`.
    """

    steps: tuple[PlacedStep, ...]
    last: int
    pending: tuple[Piece, ...]
    turns: Turns
    variables: tuple[Variable, ...]
    own: frozenset[str]
    handles: tuple[tuple[Expression, int], ...]
    result: object
    arguments: Mapping[int, int]
    samples: Mapping[int, tuple[int, int]]

    @property
    def branches(self) -> bool:
        """Whether calls may run side by side: some step does not go on from the one before it."""
        return any(placed.before != place for place, placed in enumerate(self.steps))

    async def run(self, run: Run, state: State[Any], texts: Sequence[str]) -> None:
        """Take the steps on a state that is empty, and wait for all calls. Raises as running the body does."""
        clock = asyncio.timeout(run.options.timeout_s)
        try:
            async with clock:
                taking = _Taking(self, run, state, texts)
                taking.begin()
                await run.finish()
                taking.end()
        except BaseException as error:
            reason = run.overdue(clock, error)
            await run.abort(reason)
            state._failure = reason or error
            if reason is None:
                state._result.fail(error)
                raise
            raise reason from error


class _Taking:
    """A blueprint's steps on their way for one item."""

    def __init__(self, plan: Blueprint, run: Run, state: State[Any], texts: Sequence[str]) -> None:
        self._plan = plan
        self._run = run
        self._state = state
        self._texts = texts
        self._links: list[Link] = [state._link]
        self._slots: list[Slot | None] = [None]
        self._open: list[tuple[Slot, Variable]] = []

    def begin(self) -> None:
        run, state = self._run, self._state
        for placed in self._plan.steps:
            call = placed.step.call
            slot = None if call is None else call.slot()
            link = run.start(
                self._links[placed.before], self._extension(placed.step, slot), scope=state._scope, slot=slot
            )
            self._links.append(link)
            self._slots.append(slot)
            if slot is not None:
                state._all_slots.append(slot)
        state._link = self._links[self._plan.last]
        state._turns = self._plan.turns
        state._slots = {variable.name: self._slot(variable) for variable in self._plan.variables}
        state._own = set(self._plan.own)
        state._by_handle = {
            id(expression): (expression, self._call_slot(step)) for expression, step in self._plan.handles
        }

    def end(self) -> None:
        """All calls are over: set what is made of their values."""
        for slot, variable in self._open:
            try:
                slot.succeed(self._variable_value(variable), None)
            except SgrtError as error:
                slot.fail(error)
        self._state._pending = [self._filled_now(piece) for piece in self._plan.pending]
        self._state._result.succeed(self._value(self._plan.result), None)

    def _call_slot(self, step: int) -> Slot:
        slot = self._slots[step]
        assert slot is not None, "only steps with a call have a variable"
        return slot

    def _slot(self, variable: Variable) -> Slot:
        if variable.step is not None:
            return self._call_slot(variable.step)
        slot = Slot(variable.name, variable.source)
        self._open.append((slot, variable))
        return slot

    def _variable_value(self, variable: Variable) -> object:
        if variable.step is not None:
            return self._call_slot(variable.step).wait()
        if variable.parts is not None:
            return [self._variable_value(part) for part in variable.parts]
        return self._value(variable.value)

    # -- texts -------------------------------------------------------------------------------------

    def _extension(self, step: Step, slot: Slot | None) -> Any:  # noqa: ANN401 - as Step.extension
        if not any(mentions_stand_in(piece.text) for piece in step.pieces):
            return step.extension(self._run, slot)
        numbers = {int(number) for piece in step.pieces for number in MARKER.findall(piece.text)}
        if numbers <= self._plan.arguments.keys():
            pieces = tuple(self._filled_now(piece) for piece in step.pieces)
            return replace(step, pieces=pieces).extension(self._run, slot)

        async def when_known(before: Rope) -> Rope:
            for number in numbers - self._plan.arguments.keys():
                await self._call_slot(self._plan.samples[number][0]).get()
            pieces = tuple(self._filled_now(piece) for piece in step.pieces)
            return await replace(step, pieces=pieces).extension(self._run, slot)(before)

        return when_known

    def _filled_now(self, piece: Piece) -> Piece:
        return replace(piece, text=self._filled(piece.text)) if mentions_stand_in(piece.text) else piece

    def _filled(self, text: str) -> str:
        """A text with every stand-in replaced by what it stood for."""
        parts = MARKER.split(text)
        parts[1::2] = [str(self._known(int(number))) for number in parts[1::2]]
        return "".join(parts)

    def _known(self, number: int) -> object:
        """The argument or the generated value that a number stands for."""
        place = self._plan.arguments.get(number)
        if place is not None:
            return self._texts[place]
        step, sample = self._plan.samples[number]
        slot = self._call_slot(step)
        value = slot.wait()
        return (
            value[sample]
            if isinstance(value, list) and slot.meta is not None and _is_sampled(self._plan, step)
            else value
        )

    def _value(self, value: object) -> object:
        """A value with every stand-in replaced."""
        if isinstance(value, Planned) and not isinstance(value, str):
            return self._known(int(MARKER.findall(str(value))[0]))
        if isinstance(value, str):
            return self._filled(str.__str__(value))
        if type(value) is list:
            return [self._value(item) for item in value]
        if type(value) is tuple:
            return tuple(self._value(item) for item in value)
        if type(value) is dict:
            return {self._value(key): self._value(item) for key, item in value.items()}
        return value


def _is_sampled(plan: Blueprint, step: int) -> bool:
    call = plan.steps[step - 1].step.call
    return call is not None and getattr(call.expression, "samples", 0) > 0
