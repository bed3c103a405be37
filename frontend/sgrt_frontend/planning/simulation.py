"""Running planned calls on paper: in what order, with which tokens shared, for how long."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from sgrt_frontend.planning.backend import PlannedCall
from sgrt_frontend.planning.tree import PlanTree, Size
from sgrt_frontend.planning.units import Units
from sgrt_frontend.trace import CallKind

Key = tuple[int, str]  # item number, call label


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """Seconds of a call: `call_s`, plus new prompt tokens and output tokens at these rates.

    Measure the rates on the machine; the defaults are those of a small model on a laptop.
    """

    prefill_tokens_per_s: float = 1500.0
    decode_tokens_per_s: float = 60.0
    call_s: float = 0.0

    def seconds(self, new_tokens: int, output_tokens: int) -> float:
        """How long a call takes."""
        return self.call_s + new_tokens / self.prefill_tokens_per_s + output_tokens / self.decode_tokens_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCall:
    """A call on paper: prompt tokens, those an unlimited cache has, output tokens, and when it runs."""

    prompt_tokens: int
    shared_tokens: int
    output_tokens: int
    begins: float
    ends: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What came out: calls by (item, label), and totals."""

    calls: dict[Key, SimulatedCall]
    peak_pages: int
    seconds: float
    longest_path: tuple[Key, ...]

    @property
    def prompt_tokens(self) -> int:
        """Prompt tokens of all calls."""
        return sum(call.prompt_tokens for call in self.calls.values())

    @property
    def shared_tokens(self) -> int:
        """Prompt tokens that need not be computed."""
        return sum(call.shared_tokens for call in self.calls.values())

    @property
    def output_tokens(self) -> int:
        """Output tokens of all calls."""
        return sum(call.output_tokens for call in self.calls.values())

    @property
    def best_hit(self) -> float:
        """The share of prompt tokens that the best cache does not compute."""
        return self.shared_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


def simulate(
    items: Sequence[Sequence[PlannedCall]],
    units: Units,
    *,
    is_long: bool,
    concurrency: int,
    page_tokens: int,
    cost: CostModel,
) -> Simulation:
    """Run the calls of all items, each as soon as what its prompt needs is there.

    At most `concurrency` items run at a time. `is_long` gives unknown runs their greatest length instead
    of their least. What is needed later is kept until its last use.
    """

    def size(tokens: tuple[int, ...]) -> int:
        bounds = units.size(tokens)
        return bounds.high if is_long else bounds.low

    simulator = _Simulator(items=items, units=units, size=size, cost=cost, is_long=is_long)
    simulator.run(concurrency)
    return Simulation(
        calls=simulator.done,
        peak_pages=simulator.tree.peak_pages(page_tokens),
        seconds=max((call.ends for call in simulator.done.values()), default=0.0),
        longest_path=simulator.longest_path(),
    )


@dataclass(slots=True, kw_only=True)
class _Simulator:
    items: Sequence[Sequence[PlannedCall]]
    units: Units
    size: Size
    cost: CostModel
    is_long: bool
    done: dict[Key, SimulatedCall] = field(default_factory=dict)
    tree: PlanTree = field(init=False)
    _ready: list[tuple[float, int, int]] = field(default_factory=list)  # a heap of (begins, item, index)
    _item_begins: dict[int, float] = field(default_factory=dict)
    _needs: dict[Key, set[str]] = field(default_factory=dict)  # labels that a waiting call still needs
    _cause: dict[Key, Key | None] = field(default_factory=dict)  # the call whose end let a call begin
    _admitted: int = 0

    def __post_init__(self) -> None:
        self.tree = PlanTree(self.size)

    def run(self, concurrency: int) -> None:
        for _ in range(concurrency):
            self._admit(0.0)
        while self._ready:
            begins, item, index = heapq.heappop(self._ready)
            call = self.items[item][index]
            self._run_call((item, call.label), call, begins)
            self._release(item, call.label)
            if all((item, other.label) in self.done for other in self.items[item]):
                self._admit(max(self.done[(item, other.label)].ends for other in self.items[item]))

    def longest_path(self) -> tuple[Key, ...]:
        """The calls that the last end waited for, oldest first."""
        key = max(self.done, key=lambda done: self.done[done].ends, default=None)
        path: list[Key] = []
        while key is not None:
            path.append(key)
            key = self._cause[key]
        return tuple(reversed(path))

    def _admit(self, begins: float) -> None:
        """Let the next item that has calls begin."""
        while self._admitted < len(self.items):
            item = self._admitted
            self._admitted += 1
            self._item_begins[item] = begins
            labels = {call.label for call in self.items[item]}
            for index, call in enumerate(self.items[item]):
                producers = {self.units[-token].producer for token in call.prompt if token < 0}
                needs = (producers & labels) - {call.label}
                self._needs[(item, call.label)] = needs
                self._cause[(item, call.label)] = None
                if not needs:
                    heapq.heappush(self._ready, (begins, item, index))
            if labels:
                return

    def _run_call(self, key: Key, call: PlannedCall, begins: float) -> None:
        prompt = self.size(call.prompt)
        shared = min(self.tree.shared(call.prompt), max(0, prompt - 1))
        attempts = call.attempts.high if self.is_long else call.attempts.low
        output = self.size(call.output) * call.samples if call.kind is CallKind.GENERATE else 0
        ends = begins + attempts * self.cost.seconds(0, output) + self.cost.seconds(prompt - shared, 0)
        kept = call.output[:-1] if call.kind is CallKind.GENERATE else call.output
        self.tree.insert(call.prompt + kept, begins, ends)
        self.done[key] = SimulatedCall(
            prompt_tokens=prompt * attempts,
            shared_tokens=shared + (attempts - 1) * max(0, prompt - 1),
            output_tokens=output * attempts,
            begins=begins,
            ends=ends,
        )

    def _release(self, item: int, label: str) -> None:
        """Let the calls begin that waited for this one last."""
        for index, call in enumerate(self.items[item]):
            key = (item, call.label)
            needs = self._needs[key]
            if label in needs:
                needs.discard(label)
                self._cause[key] = (item, label)
                if not needs:
                    heapq.heappush(self._ready, (self.done[(item, label)].ends, item, index))
