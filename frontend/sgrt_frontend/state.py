"""State: one run of a program. Text, turns and calls are appended; variables are read."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, NoReturn, cast, overload

from typing_extensions import TypeVar

from sgrt_frontend.call import Role, Score, Usage
from sgrt_frontend.chain import Link
from sgrt_frontend.characters import require_characters
from sgrt_frontend.errors import DeadlineExceeded, InvalidRequest
from sgrt_frontend.expression import Body, Expression, Value, Var, expression_of
from sgrt_frontend.numbers import require_count, require_seconds
from sgrt_frontend.rope import Rope
from sgrt_frontend.run import Run, in_thread
from sgrt_frontend.scope import Scope
from sgrt_frontend.scoring import Scored, Scoring
from sgrt_frontend.slot import ResultSlot, Slot
from sgrt_frontend.snapshot import Snapshot
from sgrt_frontend.source import caller_source
from sgrt_frontend.trace import Trace
from sgrt_frontend.turns import Turns
from sgrt_frontend.variables import Variables

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True, default=object)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A point that `State.rollback` returns to. It holds tokens by reference; the cache keeps their KV."""

    link: Link
    turns: Turns
    slots: dict[str, Slot]
    own: frozenset[str]
    calls: int
    scope: Scope


class State(Variables, Generic[R_co]):
    """What a program's body works on, and what running it returns; `result` is what the body returned.

    `s += ...` is lazy: calls run in the background, in order, and `s["x"]` waits. A state belongs
    to the thread or task of its body.
    """

    def __init__(self, run: Run, path: str, *, scope: Scope | None = None) -> None:
        super().__init__(run, path, scope=scope)
        self._result: Slot = ResultSlot("result", caller_source())
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        """Program, place and variables; waits for nothing."""
        names = [
            name
            if slot.is_done and slot.failure is None
            else f"{name} (failed)"
            if slot.is_done
            else f"{name} (running)"
            for name, slot in self._slots.items()
        ]
        return f"<State {self._path} of {self._run.trace.program}: {', '.join(names) or 'no variables'}>"

    __iter__ = None  # it has variables, not items

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied by `copy`.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            "a state belongs to its run; s.copy() goes on from it, s.save(path) keeps it, sgrt.save_trace its calls"
        )

    # Appending

    def __iadd__(self, value: object) -> State[R_co]:
        """Append text, a turn, or a call.

        Raises:
            TypeError: the value is neither text nor an expression.
            InvalidRequest: turns are nested, or the model has no usable chat template.
        """
        self._append(expression_of(value))
        return self

    def system(self, body: Expression | str | Body = Body.BLOCK) -> contextlib.AbstractContextManager[None]:
        """Append a system turn; without a body, open one: `with s.system(): ...`."""
        return self._role(Role.SYSTEM, body)

    def user(self, body: Expression | str | Body = Body.BLOCK) -> contextlib.AbstractContextManager[None]:
        """Append a user turn; without a body, open one: `with s.user(): ...`."""
        return self._role(Role.USER, body)

    def assistant(
        self, body: Expression | str | Body = Body.BLOCK
    ) -> contextlib.AbstractContextManager[None]:
        """Append an assistant turn; without a body, open one: `with s.assistant(): ...`."""
        return self._role(Role.ASSISTANT, body)

    def tool(self, body: Expression | str | Body = Body.BLOCK) -> contextlib.AbstractContextManager[None]:
        """Append a tool turn; without a body, open one: `with s.tool(): ...`."""
        return self._role(Role.TOOL, body)

    @property
    def result(self) -> R_co:
        """What the body returned; waits for it (nested programs run beside their caller)."""
        return cast("R_co", self._run.wait(self._result, awaited="await inner(...)"))

    def __await__(self) -> Generator[Any, Any, R_co]:
        """What the body of a nested program returns: `await inner(...)`, in the body of an async one."""
        return cast("Generator[Any, Any, R_co]", self._result.get().__await__())

    @property
    def error(self) -> BaseException | None:
        """Why the run failed, for the states of a batch; None when it did not."""
        return self._failure

    @property
    def trace(self) -> Trace:
        """Every call of the run so far, those of forks and nested programs among them."""
        return self._run.trace

    @property
    def usage(self) -> Usage:
        """Tokens of all calls of the run so far, those of forks and nested programs among them."""
        return self._run.usage

    # Forks, scopes and the way back

    def fork(self, count: int = 1) -> Forks:
        """`count` states that go on from here, sharing everything so far by reference: no call, no copy.

        Use it as a context manager to cancel what is still running in the forks at its end.
        """
        require_count(count, "count")
        group = f"{self._path}/f{self._children}"
        self._children += 1
        return Forks(self, [self._child(f"{group}.{index}") for index in range(count)])

    def copy(self) -> State:
        """One state that goes on from here; this one is not changed by it."""
        return self.fork(1)[0]

    def _child(self, path: str) -> State:
        child: State = State(self._run, path, scope=Scope(self._scope))
        child._link = self._seal()
        child._turns = self._turns.inherited()
        child._slots = dict(self._slots)
        child._by_handle = dict(self._by_handle)
        return child

    def checkpoint(self) -> Checkpoint:
        """A point to come back to with `rollback`."""
        link = self._seal()
        outer = self._scope
        self._scope = Scope(outer)
        return Checkpoint(
            link=link,
            turns=self._turns,
            slots=dict(self._slots),
            own=frozenset(self._own),
            calls=len(self._all_slots),
            scope=outer,
        )

    def rollback(self, checkpoint: Checkpoint) -> None:
        """Forget everything since a checkpoint; calls still running since then are cancelled."""
        for slot in self._all_slots[checkpoint.calls :]:
            slot.was_raised = True  # what is forgotten cannot fail the run
        del self._all_slots[checkpoint.calls :]
        self._run.on_loop(self._scope.cancel)
        self._scope = Scope(checkpoint.scope)
        self._link = checkpoint.link
        self._pending.clear()
        self._turns = replace(
            checkpoint.turns, open_role=self._turns.open_role and checkpoint.turns.open_role
        )
        self._slots = dict(checkpoint.slots)
        self._own = set(checkpoint.own)

    @contextlib.contextmanager
    def var_scope(self, name: str) -> Iterator[None]:
        """The text appended inside the block becomes the variable `name`, also when the block raises."""
        start = self._seal()
        try:
            yield
        finally:

            def captured(rope: Rope) -> str:
                return rope.text_since(start.settled)

            self._slots[name] = self._rope_slot(captured, name=name)
            self._own.add(name)

    @contextlib.contextmanager
    def timeout(self, seconds: float) -> Iterator[None]:
        """Calls appended inside the block are cancelled, at once, `seconds` after it began.

        Reading one of them then raises ProgramError from DeadlineExceeded.
        """
        require_seconds(seconds, "seconds")
        outer = self._scope
        scope = Scope(outer)
        self._scope = scope
        reason = DeadlineExceeded(f"not done within the {seconds} s of its timeout block")
        self._run.on_loop(lambda: scope.cancel_after(seconds, reason))
        try:
            yield
        finally:
            self._scope = outer

    def cancel(self) -> None:
        """Cancel, at once, all calls of this state and of its forks; they free their memory."""
        self._run.on_loop(self._scope.cancel)

    # Scores, and files

    def score(self, continuations: Sequence[str]) -> list[Score]:
        """Log-probabilities of texts after the state so far, which stays as it is; waits for them."""
        return cast(
            "list[Score]", self._run.wait(self._score_slot(continuations), awaited="await s.ascore(...)")
        )

    async def ascore(self, continuations: Sequence[str]) -> list[Score]:
        """Await the log-probabilities of texts after the state so far."""
        return cast("list[Score]", await self._score_slot(continuations).get())

    def _score_slot(self, continuations: Sequence[str]) -> Slot:
        for text in continuations:
            require_characters(text, "continuations")
        slot = Slot("score", caller_source())

        def split(rope: Rope) -> Scored:
            encoded = [self._run.encoder.encode(text) for text in continuations]
            return Scored(prefix=rope, continuations=encoded)

        scoring = Scoring(run=self._run, slot=slot, label=self._next_label(), split=split)
        self._run.start(self._seal(), scoring.extend, scope=self._scope, slot=slot)
        return slot

    def prompt_logprobs(self) -> Score:
        """Log-probabilities of the state's own tokens after its first one; waits for them."""
        slot = Slot("prompt_logprobs", caller_source())

        def split(rope: Rope) -> Scored:
            tokens = rope.flat()
            return Scored(prefix=Rope.empty().extend(tokens[:1], ""), continuations=[tokens[1:]])

        scoring = Scoring(run=self._run, slot=slot, label=self._next_label(), split=split)
        self._run.start(self._seal(), scoring.extend, scope=self._scope, slot=slot)
        return cast("list[Score]", self._run.wait(slot, awaited=in_thread("prompt_logprobs")))[0]

    def save(self, path: str | Path) -> None:
        """Write tokens, turns and variables to a file; waits for them.

        Raises:
            InvalidRequest: a variable has a value that JSON cannot hold; nothing is written then.
        """
        model = self._run.encoder.backend.describe().model
        snapshot = Snapshot.of(self._rope(), self._turns, self.variables(), model=model)
        Path(path).write_text(snapshot.to_json(), encoding="utf-8")

    def load(self, path: str | Path) -> None:
        """Go on from a saved state. Values of variables come back as plain JSON values.

        Raises:
            InvalidRequest: this state has content already, or the file is from another model.
        """
        if self._pending or self._turns.roles or self._link.settled is None or self._link.settled.length:
            raise InvalidRequest("load: the state is not empty; load before appending", param="path")
        snapshot = Snapshot.from_json(Path(path).read_text(encoding="utf-8"))
        snapshot.require_model(self._run.encoder.backend.describe().model)
        self._link = Link(snapshot.rope())
        self._turns = snapshot.turns()
        for name, value in snapshot.variables.items():
            self[name] = value


class Forks:
    """States that went on from one point. `forks += x` appends to each; `join()` brings variables home."""

    def __init__(self, parent: State, states: Sequence[State]) -> None:
        self._parent = parent
        self._states = tuple(states)

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[State]:
        return iter(self._states)

    def __getitem__(self, index: int) -> State:
        return self._states[index]

    def __setitem__(self, index: int, state: State) -> None:
        """What `forks[i] += x` needs; a fork cannot be exchanged for another state."""
        if state is not self._states[index]:
            raise InvalidRequest("a fork cannot be replaced by another state", param="index")

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iadd__(self, value: object) -> Forks:
        """Append the same to every fork, or the i-th of a list, or what a function of i returns."""
        if isinstance(value, list | tuple):
            if len(value) != len(self):
                raise InvalidRequest(f"{len(value)} values for {len(self)} forks", param="value")
            values: list[object] = list(value)
        elif callable(value) and not isinstance(value, Expression):
            values = [value(index) for index in range(len(self))]
        else:
            values = [value] * len(self)
        for state, item in zip(self._states, values, strict=True):
            state += item
        return self

    @overload
    def values(self, variable: Var[T]) -> list[T]: ...
    @overload
    def values(self, variable: str) -> list[Value]: ...
    def values(self, variable: Var[T] | str) -> list[Value]:
        """The variable's value in every fork; waits for them."""
        return [state[variable] for state in self._states]

    def join(self, **missing: object) -> None:
        """Make every variable that the forks set a list on the parent, one value per fork, in order.

        Does not wait. A variable that some forks did not set is an error, unless a value to stand for
        it is given by name: `forks.join(note="")`.
        """
        names = [name for state in self._states for name in state._slots if name in state._own]
        for name in dict.fromkeys(names):
            slots: list[Slot] = []
            for index, state in enumerate(self._states):
                if name in state._own:
                    slots.append(state._slots[name])
                elif name in missing:
                    slots.append(Slot.holding(name, missing[name], caller_source()))
                else:
                    raise InvalidRequest(
                        f"{name!r} was not set in fork {index}; set it there, or join({name}=...)", param=name
                    )
            self._parent._gather(name, slots)

    def close(self) -> None:
        """Cancel whatever is still running in the forks."""
        for state in self._states:
            state.cancel()
