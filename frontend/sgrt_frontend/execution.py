"""Executing a body: sync or async, at the top of a run or nested in another."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

from sgrt_frontend.backend import Backend
from sgrt_frontend.caller import Caller, LiveCaller
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.events import Event
from sgrt_frontend.frames import EXITS, Exit
from sgrt_frontend.history import current_history
from sgrt_frontend.options import RunOptions
from sgrt_frontend.planning.tainting import tainted
from sgrt_frontend.run import Run
from sgrt_frontend.scope import Scope
from sgrt_frontend.state import State

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A program's function with its arguments; all it still needs is a state. A method's `receiver` comes before it."""

    name: str
    function: Callable[..., Any]
    is_async: bool
    arguments: tuple[tuple[object, ...], Mapping[str, object]]
    receiver: tuple[object, ...] = ()

    def call(self, state: State[Any]) -> Any:  # noqa: ANN401 - whatever the function returns
        """Call the function on a state."""
        args, kwargs = self.arguments
        return self.function(*self.receiver, state, *args, **kwargs)

    def tainted(self, taint: Callable[[object], object]) -> Body:
        """The body for a run on stand-ins: text that is made of them stays known as such."""
        return replace(self, function=tainted(self.function, taint))


class Opened(NamedTuple, Generic[R]):
    """A run that is ready, and its first state."""

    run: Run
    state: State[R]


def open_run(
    body: Body,
    options: RunOptions,
    backend: Backend,
    *,
    caller: Caller | None = None,
    encoder: Encoder | None = None,
    seed: int | None = None,
    listener: Callable[[Event], None] | None = None,
) -> Opened[Any]:
    """Make a run on the running loop. `encoder` is shared by the runs of a batch."""
    run = Run(
        encoder=encoder or Encoder(backend),
        caller=caller or LiveCaller(backend),
        options=options,
        program=body.name,
        seed=options.seed if seed is None else seed,
        listener=listener,
    )
    run.trace.arguments = body.arguments
    return Opened(run, State(run, "s", scope=run.scope))


def is_async(function: Callable[..., object]) -> bool:
    """Whether calling the function gives a coroutine."""
    return inspect.iscoroutinefunction(function)


def run_sync(body: Body, state: State[R]) -> R:
    """Run a sync body in this thread."""
    token = current_history.set(state)
    try:
        result: R = _returned(body, body.call(state))
        state._result.succeed(result, None)
        return result
    except BaseException as error:
        state._result.fail(error)
        raise
    finally:
        current_history.reset(token)


async def run_async(body: Body, state: State[R]) -> R:
    """Run an async body in this task."""
    token = current_history.set(state)
    try:
        result: R = _returned(body, await body.call(state))
        state._result.succeed(result, None)
        return result
    except BaseException as error:
        state._result.fail(error)
        raise
    finally:
        current_history.reset(token)


def _returned(body: Body, result: R) -> R:
    """What a body returned.

    Raises:
        InvalidRequest: a coroutine, which nobody would await.
    """
    if inspect.iscoroutine(result):
        result.close()
        raise InvalidRequest(
            f"{body.name} returned a coroutine, which nobody awaits; make it `async def`, and await in it",
            param="function",
        )
    return result


async def execute(run: Run, body: Body, state: State[Any], pool: Executor | None) -> None:
    """Run a body and all its calls to the end, within the run's timeout.

    A sync body runs in a thread of `pool`. A failure cancels what is still running.
    """
    clock = asyncio.timeout(run.options.timeout_s)
    try:
        async with clock:
            try:
                await _body_on_loop(body, state, pool)
            except EXITS as error:
                raise Exit(error) from error
            await run.finish()
    except BaseException as error:
        reason = run.overdue(clock, error)
        await run.abort(reason)
        state._failure = reason or (error.error if isinstance(error, Exit) else error)
        if reason is None:
            raise
        raise reason from error


async def _body_on_loop(body: Body, state: State[Any], pool: Executor | None) -> None:
    if body.is_async:
        await run_async(body, state)
        return
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    work = loop.run_in_executor(pool, lambda: context.run(run_sync, body, state))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        # A thread cannot be interrupted; its next wait ends at once because every call is cancelled.
        state._run.scope.cancel()
        await asyncio.wait([work])
        work.exception()  # seen: the cancellation is what counts
        raise


def nest(body: Body, parent: State[Any]) -> State[Any]:
    """Run a program inside another's run: its calls run beside the caller's.

    A sync body runs right here, which takes no thread and no time unless it waits for its own values;
    an async body runs as a task of the run's loop, beside the caller.
    """
    run = parent._run
    if run.taint is not None:
        body = body.tainted(run.taint)
    path = f"{parent._path}/n{parent._children}"
    parent._children += 1
    state: State[Any] = State(run, path, scope=Scope(parent._scope))
    if not body.is_async:
        run_sync(body, state)
        return state
    run.watch(state._result)

    async def beside() -> None:
        try:
            await run_async(body, state)
        except (Exception, *EXITS):  # noqa: BLE001 - kept in the state's result, raised to whoever reads it
            return

    run.on_loop(lambda: run.spawn(beside(), scope=state._scope, slot=state._result))
    return state
