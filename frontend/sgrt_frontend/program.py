"""`@function` and Program: a decorated body that can be run, batched, streamed, bound and nested."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from typing_extensions import Unpack

from sgrt_frontend.backend import Backend
from sgrt_frontend.batch import Batch
from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.execution import Body, execute, is_async, nest, run_sync
from sgrt_frontend.frames import UserFrames
from sgrt_frontend.history import current_history
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.options import RunOptions, RunSettings, backend_of, checked_backend
from sgrt_frontend.planning.plan import PlanOptions, ProgramPlan, opened, plan
from sgrt_frontend.planning.schedule import open_planned
from sgrt_frontend.planning.units import Units
from sgrt_frontend.run import Run
from sgrt_frontend.sampling import SamplingOptions, sampling_params
from sgrt_frontend.state import State
from sgrt_frontend.stream import AsyncStream, Stream

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
S_contra = TypeVar("S_contra", contravariant=True)

Function = Callable[..., Any]
Arguments = tuple[tuple[object, ...], dict[str, object]]


class Program(Generic[P, R_co]):
    """A program: a function of a State and arguments. Making one runs nothing.

    All arguments of `run` and its relatives are the body's own; how it runs is said by
    `with_options`, `on` and `bind`, which return new programs.
    """

    def __init__(
        self,
        function: Function,
        *,
        options: RunOptions | None = None,
        bound: Mapping[str, object] | None = None,
        receiver: object = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options or RunOptions()
        self._bound = dict(bound or {})
        self._receiver = receiver
        self._is_async = is_async(function)

    @property
    def body(self) -> Function:
        """The decorated function, to call on a state of one's own: `expand.body(s, topic)`."""
        return self._function

    @property
    def name(self) -> str:
        """The function's name."""
        return self._function.__name__

    def __repr__(self) -> str:
        return f"<program {self._function.__qualname__}>"

    def __reduce__(self) -> str:
        """A program pickles as the name that its decorator gave it in its module.

        Raises:
            TypeError: it has settings, a backend or arguments of its own, or belongs to an instance.
        """
        if self._options != RunOptions() or self._bound or self._receiver is not None:
            raise TypeError(
                f"{self.name}: a program pickles by its name alone; give it its backend, settings and arguments there"
            )
        return self._function.__qualname__

    def __get__(self, receiver: object, owner: type) -> Program[P, R_co]:
        """A program that is a class's attribute is a method: it takes the instance before the state."""
        if receiver is None:
            return self
        return Program(self._function, options=self._options, bound=self._bound, receiver=receiver)

    # How it runs

    def with_options(self, **settings: Unpack[RunSettings]) -> Program[P, R_co]:
        """The program with other settings; see `RunSettings`.

        Raises:
            InvalidRequest: a value is out of range, or there is no such setting.
        """
        return self._with(_merged(self._options, settings))

    def on(self, backend: Backend) -> Program[P, R_co]:
        """The program on a backend: `triage.on(engine).run(ticket)`.

        Raises:
            TypeError: it is no backend.
        """
        return self._with(replace(self._options, backend=checked_backend(backend)))

    def _with(self, options: RunOptions) -> Program[P, R_co]:
        return Program(self._function, options=options, bound=self._bound, receiver=self._receiver)

    def bind(self, **arguments: object) -> Program[..., R_co]:
        """The program with some arguments fixed. Giving one of them again when running is an error.

        Raises:
            InvalidRequest: the body has no such parameter, or it is bound already.
        """
        parameters = self._parameters()
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
        for name in arguments:
            if name not in parameters and not takes_any:
                raise InvalidRequest(f"{name}: {self.name} has no such parameter", param=name)
            if name in self._bound:
                raise InvalidRequest(f"{name}: is bound already, to {self._bound[name]!r}", param=name)
        bound = {**self._bound, **arguments}
        return Program(self._function, options=self._options, bound=bound, receiver=self._receiver)

    # Running

    def run(self, *args: P.args, **kwargs: P.kwargs) -> State[R_co]:
        """Run to the end and return the finished state. Works inside a running event loop too.

        Raises:
            ProgramError: a call failed and the body did not handle it.
        """
        body = self._body_with(args, kwargs)
        backend = backend_of(self._options)
        with UserFrames(), LoopThread() as thread:
            run, state = thread.call(open_planned(body, self._options, backend))
            if body.is_async or self._options.timeout_s is not None:
                with _one_thread(body) as pool:
                    thread.call(execute(run, body, state, pool))
                return state
            try:
                run_sync(body, state)
            except BaseException:
                thread.call(run.abort())
                raise
            thread.call(_finished(run))
        return state

    async def arun(self, *args: P.args, **kwargs: P.kwargs) -> State[R_co]:
        """Run to the end on the running event loop and return the finished state."""
        body = self._body_with(args, kwargs)
        with UserFrames(), _one_thread(body) as pool:
            run, state = await open_planned(body, self._options, backend_of(self._options))
            await execute(run, body, state, pool)
        return state

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> State[R_co]:
        """Inside another program: run beside it, in the same run, and return the state at once.

        Raises:
            InvalidRequest: no program is running here.
        """
        parent = current_history.get()
        if not isinstance(parent, State):
            raise InvalidRequest(
                f"{self.name} was called outside a running program; write {self.name}.run(...)", param="run"
            )
        return nest(self._body_with(args, kwargs), parent)

    def stream(self, *args: P.args, **kwargs: P.kwargs) -> Stream[R_co]:
        """Run, and iterate over events as they come: `with program.stream(x) as events: ...`."""
        body = self._body_with(args, kwargs)
        return Stream(body, self._options, backend_of(self._options))

    def astream(self, *args: P.args, **kwargs: P.kwargs) -> AsyncStream[R_co]:
        """Run on the running event loop, and iterate over events: `async with program.astream(x) as events`."""
        body = self._body_with(args, kwargs)
        return AsyncStream(body, self._options, backend_of(self._options))

    def run_batch(
        self,
        arguments: Iterable[Mapping[str, object] | tuple[object, ...]],
        *,
        concurrency: int = 32,
        progress: bool | None = None,
        raise_errors: bool = True,
    ) -> list[State[R_co]]:
        """Run once per item: a mapping of keyword arguments or a tuple of positional ones.

        Every item runs to its end whatever happens to the others. States come back in the order of
        the items; a failed one has `state.error`. `progress=None` shows a bar on a terminal.

        Raises:
            BatchError: at the end, some items failed; it carries all states. Not with `raise_errors=False`.
        """
        items = [_item(argument) for argument in arguments]
        with UserFrames():
            return self._batch(items).run(
                concurrency=concurrency, progress=progress, raise_errors=raise_errors
            )

    async def arun_batch(
        self,
        arguments: Iterable[Mapping[str, object] | tuple[object, ...]],
        *,
        concurrency: int = 32,
        progress: bool | None = None,
        raise_errors: bool = True,
    ) -> list[State[R_co]]:
        """As `run_batch`, on the running event loop."""
        items = [_item(argument) for argument in arguments]
        with UserFrames():
            return await self._batch(items).arun(
                concurrency=concurrency, progress=progress, raise_errors=raise_errors
            )

    def map(
        self,
        values: Iterable[object],
        *,
        concurrency: int = 32,
        progress: bool | None = None,
        raise_errors: bool = True,
    ) -> list[State[R_co]]:
        """As `run_batch`, for a program of one argument: run once per value."""
        items: list[Arguments] = [((value,), {}) for value in values]
        with UserFrames():
            return self._batch(items).run(
                concurrency=concurrency, progress=progress, raise_errors=raise_errors
            )

    def _batch(self, items: Sequence[Arguments]) -> Batch[R_co]:
        bodies = [self._body_with(args, kwargs) for args, kwargs in items]
        return Batch(self.name, bodies, self._options, backend_of(self._options))

    def plan(self, *args: P.args, **kwargs: P.kwargs) -> ProgramPlan:
        """The calls of a run and what they share, without a model; see `ProgramPlan`.

        The body runs once per combination of decisions, with stand-ins for generated values. A tokenizer and
        a chat template are needed: those of the program's backend.
        """
        return plan(
            [self._body_with(args, kwargs)], backend_of(self._options), PlanOptions(), settings=self._options
        )

    def plan_batch(
        self,
        arguments: Iterable[Mapping[str, object] | tuple[object, ...]],
        options: PlanOptions | None = None,
    ) -> ProgramPlan:
        """As `plan`, for the items of a batch."""
        bodies = [self._body_with(*_item(argument)) for argument in arguments]
        return plan(bodies, backend_of(self._options), options or PlanOptions(), settings=self._options)

    def plan_open(self, **arguments: object) -> ProgramPlan:
        """A plan for any text: parameters that are given no value and hold text are left open.

        Raises:
            InvalidRequest: a parameter without a value is no text.
        """
        units = Units()
        given = {**self._bound, **arguments}
        options = PlanOptions()
        filled = opened(self._parameters(), given, units, options.open_text_tokens)
        body = self._unbound_body((), filled)
        return plan([body], backend_of(self._options), options, settings=self._options, units=units)

    # Arguments

    def _parameters(self) -> dict[str, inspect.Parameter]:
        """The body's own parameters: after the receiver, if there is one, and the state."""
        skipped = 1 if self._receiver is None else 2
        return dict(list(inspect.signature(self._function).parameters.items())[skipped:])

    def _body_with(self, args: Sequence[object], kwargs: Mapping[str, object]) -> Body:
        """The body with arguments.

        Raises:
            TypeError: the arguments do not fit the body's parameters.
            InvalidRequest: an argument is bound already.
        """
        self._refuse_conflicts(args, kwargs)
        return self._unbound_body(args, {**self._bound, **kwargs})

    def _refuse_conflicts(self, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        for name, parameter in list(self._parameters().items())[: len(args)]:
            if name in self._bound and parameter.kind is not parameter.VAR_POSITIONAL:
                raise InvalidRequest(
                    f"{name}: is bound to {self._bound[name]!r} and was given again", param=name
                )
        for name in kwargs:
            if name in self._bound:
                raise InvalidRequest(
                    f"{name}: is bound to {self._bound[name]!r} and was given again", param=name
                )

    def _unbound_body(self, args: Sequence[object], arguments: Mapping[str, object]) -> Body:
        """The body with exactly these arguments."""
        own = () if self._receiver is None else (self._receiver,)
        inspect.signature(self._function).bind(*own, None, *args, **arguments)  # says early what does not fit
        return Body(
            name=self.name,
            function=self._function,
            is_async=self._is_async,
            arguments=(tuple(args), arguments),
            receiver=own,
        )


@overload
def function(function: Callable[Concatenate[State[Any], P], Awaitable[R]], /) -> Program[P, R]: ...
@overload
def function(function: Callable[Concatenate[State[Any], P], R], /) -> Program[P, R]: ...
@overload
def function(function: Callable[Concatenate[S_contra, State[Any], P], Awaitable[R]], /) -> Program[P, R]: ...
@overload
def function(function: Callable[Concatenate[S_contra, State[Any], P], R], /) -> Program[P, R]: ...
def function(function: Function, /) -> Program[..., Any]:
    """Make a program of a function whose first parameter (after `self` in a class) is its State.

    Raises:
        InvalidRequest: the function has no parameter for the state.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if not any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in parameters):
        raise InvalidRequest(
            f"{function.__qualname__} needs a first parameter for its State: `def {function.__name__}(s: State, ...)`",
            param="function",
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidRequest(f"{function.__qualname__} is a generator; a program returns", param="function")
    return Program(function)


_OF_BATCHES = ("concurrency", "progress", "raise_errors")


def _merged(options: RunOptions, settings: RunSettings) -> RunOptions:
    known = RunSettings.__annotations__
    for name in settings:
        if name not in known:
            hint = (
                f"; write run_batch(..., {name}=...) or map(..., {name}=...)" if name in _OF_BATCHES else ""
            )
            raise InvalidRequest(f"{name}: with_options has no such setting{hint}", param=name)
    if (backend := settings.get("backend")) is not None:
        checked_backend(backend)
    sampling: SamplingOptions = options.sampling.copy()
    for key, value in settings.items():
        if key in SamplingOptions.__annotations__ and key != "seed":
            sampling[key] = value  # type: ignore[literal-required]  # checked against the keys above
    sampling_params(sampling)
    return RunOptions(
        backend=settings.get("backend", options.backend),
        sampling=sampling,
        seed=settings.get("seed", options.seed),
        timeout_s=settings.get("timeout_s", options.timeout_s),
        priority=settings.get("priority", options.priority),
        cache_salt=settings.get("cache_salt", options.cache_salt),
        planned=settings.get("planned", options.planned),
    )


def _item(
    argument: Mapping[str, object] | tuple[object, ...],
) -> tuple[tuple[object, ...], dict[str, object]]:
    if isinstance(argument, Mapping):
        return (), dict(argument)
    if isinstance(argument, tuple):
        return argument, {}
    raise InvalidRequest(
        f"arguments: an item is a mapping or a tuple of arguments, not {type(argument).__name__}; "
        "for single values use map",
        param="arguments",
    )


async def _finished(run: Run) -> None:
    try:
        await run.finish()
    except BaseException:
        await run.abort()
        raise


@contextlib.contextmanager
def _one_thread(body: Body) -> Iterator[ThreadPoolExecutor | None]:
    """A thread for a sync body; none for an async one."""
    if body.is_async:
        yield None
        return
    with ThreadPoolExecutor(1, thread_name_prefix="sgrt-body") as pool:
        yield pool
