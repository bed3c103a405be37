"""A step of a history: constants that were appended, then perhaps a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sgrt_frontend.chain import Piece
from sgrt_frontend.gen import Gen
from sgrt_frontend.generate import Generation, Place
from sgrt_frontend.rope import Rope
from sgrt_frontend.run import Run
from sgrt_frontend.select import Select
from sgrt_frontend.selection import Selection
from sgrt_frontend.slot import Slot
from sgrt_frontend.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStep:
    """The call of a step: what is generated or selected, where it stands, and the line that wrote it."""

    expression: Gen[Any] | Select
    place: Place
    source: Source

    def slot(self) -> Slot:
        """A variable for its value."""
        return Slot(self.expression.name, self.source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Pieces to encode as one, and a call after them."""

    pieces: tuple[Piece, ...]
    call: CallStep | None = None

    def extension(self, run: Run, slot: Slot | None) -> Callable[[Rope], Awaitable[Rope]]:
        """What continues a rope by this step; `slot` gets the value of its call."""
        answer = None if self.call is None or slot is None else _answer(run, self.call, slot)
        pieces = self.pieces

        async def extend(before: Rope) -> Rope:
            rope = await run.encoder.beside_loop(run.encoder.extend, before, pieces)
            return rope if answer is None else await answer(rope)

        return extend


def _answer(run: Run, call: CallStep, slot: Slot) -> Callable[[Rope], Awaitable[Rope]]:
    if isinstance(call.expression, Gen):
        return Generation(run=run, gen=call.expression, slot=slot, place=call.place).extend
    return Selection(run=run, select=call.expression, slot=slot, place=call.place).extend
