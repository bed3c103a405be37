"""Making a blueprint: run a body once on stand-ins, if nobody can notice, and write down its steps."""

from __future__ import annotations

from collections.abc import Hashable
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from sgrt_frontend.backend import Backend
from sgrt_frontend.call import Call
from sgrt_frontend.caller import Decide, Generated
from sgrt_frontend.chain import Link
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.execution import Body, execute, open_run
from sgrt_frontend.expression import Value
from sgrt_frontend.gen import Gen
from sgrt_frontend.options import RunOptions
from sgrt_frontend.planning.backend import PlanBackend, PlanCaller
from sgrt_frontend.planning.blueprint import Blueprint, PlacedStep, Variable
from sgrt_frontend.planning.oracle import NeedsValue, Oracle
from sgrt_frontend.planning.placeholder import ExactText, ExactValue, exactly_retainted
from sgrt_frontend.planning.purity import is_pure
from sgrt_frontend.planning.units import Unit, UnitKind, Units
from sgrt_frontend.scope import Scope
from sgrt_frontend.select import Select
from sgrt_frontend.slot import Meta, Slot
from sgrt_frontend.stand_in import marker, mentions_stand_in, stand_ins_in
from sgrt_frontend.state import State
from sgrt_frontend.step import Step

# An argument that the body looks into is fixed, and the body traced again, so many times.
_MAX_ATTEMPTS = 12
_MAX_BLUEPRINTS = 256
_FIXED = (int, float, bool, bytes, type(None), Enum)


class NotStatic(Exception):
    """What a body does depends on more than its fixed arguments; the message says on what."""


@dataclass(slots=True)
class Drafts:
    """The blueprints of a program by what they depend on: arguments that are not text, and texts the body looks into."""

    backend: Backend
    settings: RunOptions
    pool: Executor
    _known: dict[Hashable, Blueprint | None] = field(default_factory=dict)
    _looked_into: set[int] = field(default_factory=set)  # places of texts that are fixed
    _is_pure: bool | None = None

    async def draft(self, body: Body) -> tuple[Blueprint, list[str]] | None:
        """The blueprint of a body and the texts to fill in; None when the body has to be run."""
        if body.receiver or len(self._known) >= _MAX_BLUEPRINTS:
            return None
        if self._is_pure is None:
            self._is_pure = is_pure(body.function)
        if not self._is_pure:
            return None
        try:
            return await self._drafted(body)
        except NotStatic:
            return None

    async def _drafted(self, body: Body) -> tuple[Blueprint, list[str]] | None:
        for _ in range(_MAX_ATTEMPTS):
            arguments = _Arguments(self._looked_into)
            open_body = arguments.opened(body)
            key = tuple(arguments.fixed)
            if key in self._known:
                found = self._known[key]
                return None if found is None else (found, arguments.texts)
            tracing = _Tracing(self, arguments)
            try:
                made = await tracing.blueprint(open_body)
            except NotStatic:
                looked_into = {
                    arguments.places[number] for number in tracing.looked_into & arguments.numbers.keys()
                }
                if not looked_into or tracing.looked_into - arguments.numbers.keys():
                    self._known[key] = None
                    raise
                self._looked_into |= looked_into
                continue
            self._known[key] = made
            return made, arguments.texts
        return None


class _Arguments:
    """Arguments taken apart: texts are opened, all else (and texts at fixed places) makes up the key."""

    def __init__(self, looked_into: set[int]) -> None:
        self.texts: list[str] = []
        self.fixed: list[Hashable] = []
        self.numbers: dict[int, int] = {}  # number of a stand-in -> index into texts
        self.places: dict[int, int] = {}  # number of a stand-in -> place among all texts
        self.units = Units()
        self._looked_into = looked_into
        self._place = 0

    def opened(self, body: Body) -> Body:
        args, kwargs = body.arguments
        opened = tuple(self._open(argument) for argument in args)
        named = {name: self._named(name, argument) for name, argument in kwargs.items()}
        return replace(body, arguments=(opened, named)).tainted(exactly_retainted)

    def _named(self, name: str, argument: object) -> object:
        self.fixed.append(name)
        return self._open(argument)

    def _open(self, value: object) -> object:
        if type(value) is str:
            return self._text(value)
        if isinstance(value, _FIXED):
            self.fixed.append((type(value), value))
            return value
        if type(value) is list or type(value) is tuple:
            self.fixed.append((type(value), len(value)))
            opened = [self._open(item) for item in value]
            return opened if type(value) is list else tuple(opened)
        if type(value) is dict and all(type(key) is str for key in value):
            self.fixed.append((dict, len(value)))
            return {key: self._named(key, item) for key, item in value.items()}
        raise NotStatic(f"an argument of type {type(value).__name__}")

    def _text(self, value: str) -> str:
        place = self._place
        self._place += 1
        if place in self._looked_into or mentions_stand_in(value):
            self.fixed.append((str, value))
            return value
        self.fixed.append(str)
        number = self.units.add(Unit(kind=UnitKind.ARGUMENT, low=0, high=0))
        self.numbers[number] = len(self.texts)
        self.places[number] = place
        self.texts.append(value)
        return ExactText(marker(number))


class _Tracing:
    """One run of a body on stand-ins."""

    def __init__(self, drafts: Drafts, arguments: _Arguments) -> None:
        self.looked_into: frozenset[int] = frozenset()
        self._drafts = drafts
        self._arguments = arguments
        self._placed: list[PlacedStep] = []
        self._places: dict[int, int] = {}  # id of a link -> number of its step
        self._links: list[Link] = []  # keeps those ids from being used again
        self._slots: dict[int, int] = {}  # id of a slot -> number of its step

    def add(self, before: Link, after: Link, step: Step, slot: Slot | None) -> None:
        """A history goes on by a step (on the body's thread, in the order of the body)."""
        place = self._places.get(id(before), 0)
        self._placed.append(PlacedStep(before=place, step=step))
        number = len(self._placed)
        self._links += (before, after)
        self._places[id(after)] = number
        if slot is not None:
            self._slots[id(slot)] = number

    async def blueprint(self, body: Body) -> Blueprint:
        backend = PlanBackend(self._drafts.backend, self._arguments.units)
        caller = _ExactCaller(backend, self._arguments.units)
        settings = replace(self._drafts.settings, timeout_s=None)
        run, state = open_run(body, settings, backend, encoder=Encoder(backend), caller=caller, seed=0)
        run.recorder, run.taint = self, exactly_retainted
        try:
            await execute(run, body, state, self._drafts.pool)
        except Exception as error:
            self.looked_into = _stand_ins_of(error)
            raise NotStatic(str(error)) from error
        self._refuse_the_rest(run.scope)
        return self._made(state, caller)

    def _refuse_the_rest(self, scope: Scope) -> None:
        """Cancelling depends on time; and a parameter of a call must not depend on generated text."""
        if scope.has_cancelling:
            raise NotStatic("the body cancels calls")
        shown = "".join(
            repr(placed.step.call.expression) for placed in self._placed if placed.step.call is not None
        )
        self.looked_into = stand_ins_in(shown)
        if self.looked_into:
            raise NotStatic("a parameter of a call is made of unknown text")

    def _made(self, state: State[Any], caller: _ExactCaller) -> Blueprint:
        steps = {
            placed.step.call.place.label: number
            for number, placed in enumerate(self._placed, 1)
            if placed.step.call
        }
        variables = tuple(self._variable(name, slot) for name, slot in state._slots.items())
        handles = tuple((expression, self._slots[id(slot)]) for expression, slot in state._by_handle.values())
        return Blueprint(
            steps=tuple(self._placed),
            last=self._places.get(id(state._link), 0),
            pending=tuple(state._pending),
            turns=state._turns,
            variables=variables,
            own=frozenset(state._own),
            handles=handles,
            result=state._result.wait(),
            arguments=self._arguments.numbers,
            samples={number: (steps[label], sample) for number, (label, sample) in caller.numbers.items()},
        )

    def _variable(self, name: str, slot: Slot) -> Variable:
        if slot.parts is not None:
            parts = tuple(self._variable(name, part) for part in slot.parts)
            return Variable(name=name, source=slot.source, parts=parts)
        step = self._slots.get(id(slot))
        if step is not None:
            return Variable(name=name, source=slot.source, step=step)
        return Variable(name=name, source=slot.source, value=slot.wait())


class _ExactCaller(PlanCaller):
    """Answers with stand-ins that can be put into text and nothing else."""

    def __init__(self, backend: Backend, units: Units) -> None:
        super().__init__(backend, units, Oracle())
        self.numbers: dict[int, tuple[str, int]] = {}  # number of a stand-in -> call label, sample

    async def select(self, select: Select, call: Call, decide: Decide) -> tuple[Generated, Meta]:
        """A stand-in for the choice."""
        generated, meta = await super().select(select, call, decide)
        (number,) = stand_ins_in(generated.samples[0].text)
        self.numbers[number] = (call.label, 0)
        return replace(generated, values=(ExactText(marker(number)),)), meta

    def _value(self, gen: Gen[Value], number: int, key: str) -> Value:
        path, call = key.rsplit("#", 1)
        place, _, sample = call.partition(".")
        self.numbers[number] = (f"{path}#{place}", int(sample or 0))
        return ExactText(marker(number)) if gen.shape.annotation is str else ExactValue(marker(number))


def _stand_ins_of(error: BaseException | None) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    while error is not None:
        found |= stand_ins_in(error.text if isinstance(error, NeedsValue) else str(error))
        error = error.__cause__ or error.__context__
    return found
