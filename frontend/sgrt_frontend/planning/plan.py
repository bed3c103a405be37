"""Planning a program: run the body with stand-ins, once per combination of decisions, and add up."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sgrt_frontend.backend import Backend
from sgrt_frontend.encoder import Encoder
from sgrt_frontend.errors import InvalidRequest, ProgramError
from sgrt_frontend.execution import Body, execute, open_run
from sgrt_frontend.loop import LoopThread
from sgrt_frontend.options import RunOptions
from sgrt_frontend.planning.backend import PlanBackend, PlanCaller, PlannedCall
from sgrt_frontend.planning.cost import CostModel
from sgrt_frontend.planning.oracle import NeedsValue, Oracle
from sgrt_frontend.planning.placeholder import PlannedText, retainted
from sgrt_frontend.planning.simulation import Machine, Simulation, simulate
from sgrt_frontend.planning.units import Bounds, Unit, UnitKind, Units
from sgrt_frontend.source import Source, raised_at
from sgrt_frontend.stand_in import marker, mentions_stand_in
from sgrt_frontend.trace import TracedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How to plan.

    `concurrency` items run at a time, on an engine with pages of `page_tokens`, passes of `step_tokens` and room for
    `max_running` sequences. `max_runs` bounds how often the body runs per item, once per combination of
    decisions. `open_text_tokens` are the bounds of an argument left open.
    `pool_pages` is the size of the pool that the program shall run in, for advice.
    """

    page_tokens: int = 32
    step_tokens: int = 512
    max_running: int = 64
    concurrency: int = 32
    cost: CostModel = field(default_factory=CostModel)
    max_runs: int = 64
    pool_pages: int | None = None
    open_text_tokens: Bounds = field(default_factory=lambda: Bounds(1, 256))

    def __post_init__(self) -> None:
        for name in ("page_tokens", "step_tokens", "max_running", "concurrency", "max_runs"):
            if getattr(self, name) < 1:
                raise InvalidRequest(f"{name}: must be at least 1", param=name)

    @property
    def machine(self) -> Machine:
        """The engine to plan for."""
        return Machine(
            page_tokens=self.page_tokens,
            step_tokens=self.step_tokens,
            max_running=self.max_running,
            cost=self.cost,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPath:
    """What one combination of decisions leads to. `decisions` maps places to the number of the option taken.

    `dynamic_from` is the line at which the body needed a value that only a model can give; calls after
    it are not in the plan. `traced` has the prompts in parts, in the order of `calls`.
    """

    calls: tuple[PlannedCall, ...]
    traced: tuple[TracedCall, ...]
    decisions: Mapping[str, int]
    dynamic_from: Source | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramPlan:
    """The plan of one or more runs of a program.

    Counts are bounds over decisions and output lengths; they are exact where `is_exact`. When
    `dynamic_from` names a line, a run may make more calls than planned from there on. `is_complete=False` says
    that decisions have more combinations than were tried.
    """

    program: str
    items: tuple[tuple[PlanPath, ...], ...]
    units: Units
    short: Simulation
    long: Simulation
    is_complete: bool
    options: PlanOptions

    @property
    def dynamic_from(self) -> Source | None:
        """The first line that needs a value, if there is one."""
        return next((path.dynamic_from for paths in self.items for path in paths if path.dynamic_from), None)

    @property
    def is_static(self) -> bool:
        """Whether every run makes the same calls."""
        return self.is_complete and self.dynamic_from is None and all(len(paths) == 1 for paths in self.items)

    @property
    def calls(self) -> Bounds:
        """Calls of all items."""
        counts = [[_count(path) for path in paths] for paths in self.items]
        return Bounds(
            sum(min(bounds.low for bounds in paths) for paths in counts),
            sum(max(bounds.high for bounds in paths) for paths in counts),
        )

    @property
    def prompt_tokens(self) -> Bounds:
        """Prompt tokens of all calls."""
        return _bounds(self.short.prompt_tokens, self.long.prompt_tokens)

    @property
    def shared_tokens(self) -> Bounds:
        """Prompt tokens that the best cache does not compute."""
        return _bounds(self.short.shared_tokens, self.long.shared_tokens)

    @property
    def new_tokens(self) -> Bounds:
        """Prompt tokens that have to be computed."""
        return _bounds(
            self.short.prompt_tokens - self.short.shared_tokens,
            self.long.prompt_tokens - self.long.shared_tokens,
        )

    @property
    def output_tokens(self) -> Bounds:
        """Tokens generated by all calls."""
        return _bounds(self.short.output_tokens, self.long.output_tokens)

    @property
    def best_hit(self) -> tuple[float, float]:
        """The share of prompt tokens that the best cache does not compute, at least and at most."""
        low, high = sorted((self.short.best_hit, self.long.best_hit))
        return low, high

    @property
    def peak_pages(self) -> Bounds:
        """KV pages needed at one time, when everything is kept until its last use."""
        return _bounds(self.short.peak_pages, self.long.peak_pages)

    @property
    def seconds(self) -> tuple[float, float]:
        """Estimated time under the cost model, at least and at most."""
        low, high = sorted((self.short.seconds, self.long.seconds))
        return low, high

    def with_outputs(
        self, lengths: Mapping[tuple[int, str], int], kept: Mapping[tuple[int, str], int] | None = None
    ) -> Simulation:
        """The plan once output lengths are known: tokens by (item number, call label), as in a trace.

        `kept` are the tokens with which the state goes on, where they are fewer: a stop string is left out.

        Raises:
            InvalidRequest: the plan is not static.
        """
        if not self.is_static:
            raise InvalidRequest(
                "lengths: only a static plan has one outcome for given lengths", param="lengths"
            )
        sizes: dict[int, int] = {}
        dropped: dict[tuple[int, str], int] = {}
        for item, (path,) in enumerate(self.items):
            for call in path.calls:
                key = (item, call.label)
                length = lengths.get(key)
                if length is None or not call.output:
                    continue
                size = (kept or {}).get(key, length)
                dropped[key] = length - size
                # The last token drawn is a run of its own: the call ends before its keys and values are computed.
                last = 1 if len(call.output) > 1 and length > 0 and not dropped[key] else 0
                sizes |= dict(zip([-token for token in call.output], [size - last, last], strict=False))
        units = self.units.fixed(sizes)
        items = [(paths, True) for paths in self.items]
        return _simulated(items, units, self.options, is_long=True, hints=self.units, dropped=dropped)

    @property
    def longest_path(self) -> tuple[str, ...]:
        """The labels of the calls that the end waits for, oldest first, outputs at their longest."""
        return tuple(label for _, label in self.long.longest_path)


def plan(
    bodies: Sequence[Body],
    backend: Backend,
    options: PlanOptions,
    *,
    settings: RunOptions,
    units: Units | None = None,
) -> ProgramPlan:
    """Plan the runs of bodies, one per item; `Program.plan` and its relatives are fronts of it.

    `units` are unknown runs that the arguments hold already.
    """
    units = Units() if units is None else units
    with LoopThread() as thread, ThreadPoolExecutor(1, thread_name_prefix="sgrt-body") as pool:
        planner = _Planner(backend, units, options, settings, pool)
        items = [thread.call(planner.paths(body)) for body in bodies]
    return ProgramPlan(
        program=bodies[0].name if bodies else "",
        items=tuple(paths for paths, _ in items),
        units=units,
        short=_simulated(items, units, options, is_long=False),
        long=_simulated(items, units, options, is_long=True),
        is_complete=all(is_complete for _, is_complete in items),
        options=options,
    )


def opened(
    parameters: Mapping[str, inspect.Parameter], given: Mapping[str, object], units: Units, size: Bounds
) -> dict[str, object]:
    """Arguments for a plan that leaves text open: parameters without a value get unknown text.

    Raises:
        InvalidRequest: a parameter without a value is not of type str.
    """
    filled = dict(given)
    for name, parameter in parameters.items():
        has_value = name in filled or parameter.default is not parameter.empty
        if has_value or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.annotation not in ("str", str, parameter.empty):
            raise InvalidRequest(
                f"{name}: only text can be left open in a plan; give a value of type {parameter.annotation}",
                param=name,
            )
        number = units.add(Unit(kind=UnitKind.ARGUMENT, low=size.low, high=size.high))
        filled[name] = PlannedText(marker(number))
    return filled


class _Planner:
    def __init__(
        self,
        backend: Backend,
        units: Units,
        options: PlanOptions,
        settings: RunOptions,
        pool: ThreadPoolExecutor,
    ) -> None:
        self._backend = PlanBackend(backend, units)
        self._encoder = Encoder(self._backend)
        self._units = units
        self._options = options
        self._settings = settings
        self._pool = pool

    async def paths(self, body: Body) -> tuple[tuple[PlanPath, ...], bool]:
        """What the body does under each combination of decisions; whether all were tried."""
        found: list[PlanPath] = []
        decisions: dict[str, int] | None = {}
        while decisions is not None and len(found) < self._options.max_runs:
            oracle = Oracle(given=dict(decisions))
            found.append(await self._path(body, oracle))
            decisions = oracle.following()
        return tuple(found), decisions is None

    async def _path(self, body: Body, oracle: Oracle) -> PlanPath:
        caller = PlanCaller(self._backend, self._units, oracle)
        run, state = open_run(
            body, self._settings, self._backend, encoder=self._encoder, caller=caller, seed=0
        )
        run.taint = retainted
        dynamic_from = None
        try:
            await execute(run, body.tainted(retainted), state, self._pool)
        except NeedsValue as error:
            dynamic_from = error.source
        except ProgramError as error:
            if not isinstance(error.__cause__, NeedsValue):
                raise
            dynamic_from = error.__cause__.source
        except Exception as error:
            if not mentions_stand_in(str(error)):
                raise
            dynamic_from = raised_at(error)  # a conversion such as int(...) met a stand-in
        by_label = {call.label: call for call in run.trace.calls}
        return PlanPath(
            calls=tuple(caller.calls),
            traced=tuple(by_label[call.label] for call in caller.calls),
            decisions=dict(oracle.given),
            dynamic_from=dynamic_from,
        )


def _simulated(
    items: Sequence[tuple[tuple[PlanPath, ...], bool]],
    units: Units,
    options: PlanOptions,
    *,
    is_long: bool,
    hints: Units | None = None,
    dropped: Mapping[tuple[int, str], int] | None = None,
) -> Simulation:
    """Simulate the paths with the fewest, or the most, prompt tokens."""

    def weight(path: PlanPath) -> int:
        sizes = [units.size(call.prompt) for call in path.calls]
        return sum(size.high if is_long else size.low for size in sizes)

    choose = max if is_long else min
    return simulate(
        [choose(paths, key=weight).calls for paths, _ in items],
        units,
        is_long=is_long,
        concurrency=options.concurrency,
        machine=options.machine,
        hints=hints,
        dropped=dropped or {},
    )


def _count(path: PlanPath) -> Bounds:
    return Bounds(
        sum(call.attempts.low for call in path.calls), sum(call.attempts.high for call in path.calls)
    )


def _bounds(one: int, other: int) -> Bounds:
    return Bounds(min(one, other), max(one, other))
