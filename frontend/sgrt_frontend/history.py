"""The growing side of a state: text, turns and calls, appended in order and run in the background."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, cast

from sgrt_frontend.call import Message, Role
from sgrt_frontend.chain import Link, Piece
from sgrt_frontend.errors import Cancelled, InvalidRequest, SgrtError
from sgrt_frontend.expression import Body, Constant, Expression, Joined, Turn, expression_of
from sgrt_frontend.gen import Gen
from sgrt_frontend.generate import Place
from sgrt_frontend.rope import PieceKind, Rope
from sgrt_frontend.run import Run, in_thread
from sgrt_frontend.scope import Scope
from sgrt_frontend.select import Select
from sgrt_frontend.slot import Slot
from sgrt_frontend.source import caller_source
from sgrt_frontend.step import CallStep, Step
from sgrt_frontend.turns import Turns

current_history: ContextVar[History | None] = ContextVar("sgrt_state", default=None)


class History:
    """Tokens and variables of one line of a run. A history belongs to the thread or task of its body."""

    def __init__(self, run: Run, path: str, *, scope: Scope | None = None) -> None:
        self._run = run
        self._path = path
        self._scope = scope or Scope(run.scope)
        self._link = Link(Rope.empty())
        self._pending: list[Piece] = []
        self._turns = Turns()
        self._slots: dict[str, Slot] = {}
        self._own: set[str] = set()
        self._by_handle: dict[int, tuple[Expression, Slot]] = {}
        self._calls = 0
        self._children = 0
        self._all_slots: list[Slot] = []  # in the order of their calls, rolled back ones removed

    def _append(self, expression: Expression) -> None:
        if isinstance(expression, Constant):
            self._text(expression.text, is_special=expression.is_special)
        elif isinstance(expression, Joined):
            for part in expression:
                self._append(part)
        elif isinstance(expression, Turn):
            with self._turn(expression.role):
                self._append(expression.body)
        elif isinstance(expression, Gen | Select):
            self._call(expression)
        else:
            raise TypeError(f"a state cannot append {type(expression).__name__}")

    def _text(self, text: str, *, is_special: bool = False) -> None:
        self._close_last_turn()
        turns = self._turns
        self._pending.append(Piece(text=text, is_special=is_special, turn=turns.number, role=turns.open_role))

    def _role(self, role: Role, body: Expression | str | Body) -> contextlib.AbstractContextManager[None]:
        if body is Body.BLOCK:
            return self._turn(role)
        self._append(Turn(role, expression_of(body)))
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _turn(self, role: Role) -> Iterator[None]:
        turns = self._turns.opened(role)
        if self._turns.roles and self._turns.is_closed:
            raise InvalidRequest(
                "role: text was appended between turns, so the template's marks no longer fit; append it inside a turn",
                param="role",
            )
        marks = self._run.encoder.marks.before(self._turns.roles, role)
        text = "\n" if self._turns.roles else ""
        self._turns = turns
        self._pending.append(Piece(tokens=marks, text=text, turn=turns.number, role=role))
        try:
            yield
        finally:
            self._turns = self._turns.ended()

    def _close_last_turn(self) -> None:
        """Outside a turn, text or a call needs the closing marks of the last turn before it."""
        turns = self._turns
        if turns.open_role is None and turns.roles and not turns.is_closed:
            self._pending.append(Piece(tokens=self._run.encoder.marks.after(turns.roles), text="\n"))
            self._turns = turns.closed()

    def _call(self, expression: Gen[Any] | Select) -> None:
        self._close_last_turn()
        place = Place(label=self._next_label(), turn=self._turns.number, role=self._turns.open_role)
        call = CallStep(expression=expression, place=place, source=caller_source())
        slot = call.slot()
        self._take_step(call, slot)
        self._all_slots.append(slot)
        self._by_handle[id(expression)] = (expression, slot)
        if expression.name:
            self._slots[expression.name] = slot
            self._own.add(expression.name)

    def _next_label(self) -> str:
        self._calls += 1
        return f"{self._path}#{self._calls - 1}"

    def _gather(self, name: str, slots: list[Slot]) -> None:
        """A variable that is the list of others' values, once they are there."""
        gathered = Slot(name, caller_source())
        gathered.parts = tuple(slots)

        async def collect() -> None:
            try:
                gathered.succeed([await slot.get() for slot in slots], None)
            except SgrtError as error:
                gathered.fail(error)

        self._run.watch(gathered)
        self._run.on_loop(lambda: self._run.spawn(collect(), scope=self._scope, slot=gathered))
        self._slots[name] = gathered
        self._own.add(name)

    def _seal(self) -> Link:
        """The link of everything appended so far, pending constants among it."""
        if self._pending:
            self._take_step(None, None)
        return self._link

    def _take_step(self, call: CallStep | None, slot: Slot | None) -> None:
        """Go on by the constants that wait, and a call."""
        step = Step(pieces=tuple(self._pending), call=call)
        self._pending.clear()
        before = self._link
        self._link = self._run.start(before, step.extension(self._run, slot), scope=self._scope, slot=slot)
        if self._run.recorder is not None:
            self._run.recorder.add(before, self._link, step, slot)

    def text(self) -> str:
        """The text so far, without the template's marks (turns are separated by a line break); waits for it."""
        return self._rope().text_since()

    def tokens(self) -> tuple[int, ...]:
        """The tokens so far; waits for them."""
        return self._rope().flat()

    def messages(self) -> list[Message]:
        """The chat turns so far; waits for them. Text outside turns is not among them."""
        contents: dict[int, str] = dict.fromkeys(range(1, len(self._turns.roles) + 1), "")
        for piece in self._rope().pieces():
            if piece.role is not None and piece.kind is not PieceKind.MARKS:
                contents[piece.turn] += piece.text
        roles = self._turns.roles
        return [Message(role=roles[number - 1], content=text) for number, text in contents.items()]

    def _rope(self) -> Rope:
        """The rope up to here; waits for it."""
        if self._run.is_over:
            if self._link.settled is None:
                raise self._link.failure or Cancelled("the run ended before this state did")
            return self._run.encoder.extend(self._link.settled, self._pending)
        rope = self._seal().settled
        return (
            rope
            if rope is not None
            else cast("Rope", self._run.wait(self._rope_slot(None), awaited=in_thread("text")))
        )

    def _rope_slot(self, reduce: Callable[[Rope], object] | None, *, name: str = "") -> Slot:
        """A slot that gets the rope up to here, or something of it."""
        slot = Slot(name, caller_source())

        async def hand_over(rope: Rope) -> Rope:
            slot.succeed(rope if reduce is None else reduce(rope), None)
            return rope

        self._run.start(self._seal(), hand_over, scope=self._scope, slot=slot)
        return slot
