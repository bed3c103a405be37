"""Running planned calls on paper, pass by pass, as the engine's scheduler does in a pool without limits."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from sgrt_frontend.planning.backend import PlannedCall
from sgrt_frontend.planning.cost import CostModel
from sgrt_frontend.planning.critical_path import needs, remaining_seconds
from sgrt_frontend.planning.pages import PageCount, Stretch
from sgrt_frontend.planning.tree import PlanTree
from sgrt_frontend.planning.units import Units
from sgrt_frontend.trace import CallKind

Key = tuple[int, str]  # item number, call label

_NOTHING: Mapping[Key, int] = MappingProxyType({})
# As in the engine: fewer tokens of a neighbour's prefix are not worth waiting for.
_MIN_AWAITED_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Sizes of the engine that calls run on, and what its passes cost."""

    page_tokens: int = 32
    step_tokens: int = 512
    max_running: int = 64
    aging_s: float = 10.0
    cost: CostModel = field(default_factory=CostModel)


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
    passes: int
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


def use_tree(items: Sequence[Sequence[PlannedCall]]) -> PlanTree:
    """All calls of all items by the tokens whose keys and values they leave behind."""
    tree = PlanTree()
    for calls in items:
        for call in calls:
            tree.insert(call.kept)
            if call.has_more_outputs:
                tree.insert(call.prompt)
    return tree


def item_order(items: Sequence[Sequence[PlannedCall]], tree: PlanTree) -> list[int]:
    """In which order to begin the items: depth first, so that those with a common prefix go together."""
    numbers = {id(part): place for place, part in enumerate(tree.parts())}
    places = [numbers[id(tree.path(calls[0].kept)[-1])] if calls and calls[0].kept else -1 for calls in items]
    return sorted(range(len(items)), key=lambda item: (places[item], item))


def simulate(
    items: Sequence[Sequence[PlannedCall]],
    units: Units,
    *,
    is_long: bool,
    concurrency: int,
    machine: Machine,
    hints: Units | None = None,
    dropped: Mapping[Key, int] = _NOTHING,
) -> Simulation:
    """Run the calls of all items, each as soon as what its prompt needs is there.

    At most `concurrency` items run at a time. `is_long` gives unknown runs their greatest length instead
    of their least. What is needed later is kept until its last use. `hints` are the unknown runs as calls go out with them,
    where `units` know better; `dropped` are tokens that a call draws and the state does not go on with.
    """
    simulator = _Simulator(items, units, machine, is_long=is_long, hints=hints or units, dropped=dropped)
    simulator.run(concurrency)
    return Simulation(
        calls=simulator.done,
        peak_pages=simulator.pages.peak,
        passes=simulator.passes,
        seconds=simulator.now_s,
        longest_path=simulator.longest_path(),
    )


@dataclass(slots=True, kw_only=True, eq=False)
class _Sequence:
    """One output of a call. It computes its prompt, then a token a pass; the last one drawn is not computed."""

    key: Key
    path: list[Stretch]
    prompt: int
    output: int
    rank: tuple[float, int]
    computed: int = 0
    drawn: int = 0

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one is drawn."""
        return self.prompt - self.computed if self.drawn == 0 else 1

    @property
    def is_decoding(self) -> bool:
        """Whether the prompt is done."""
        return self.drawn > 0


@dataclass(slots=True)
class _Progress:
    """A call that has begun: what is still to come of it."""

    call: PlannedCall
    begins: float
    prompt: int
    shared: int
    attempts: int
    sequences: int = 0
    output: int = 0


class _Simulator:
    def __init__(
        self,
        items: Sequence[Sequence[PlannedCall]],
        units: Units,
        machine: Machine,
        *,
        is_long: bool,
        hints: Units,
        dropped: Mapping[Key, int],
    ) -> None:
        self.done: dict[Key, SimulatedCall] = {}
        self.passes = 0
        self.now_s = 0.0
        self._items = items
        self._units = units
        self._hints = hints
        self._dropped = dropped
        self._machine = machine
        self._is_long = is_long
        self._best = PlanTree(self._size)  # what an unlimited cache has
        self._tree = use_tree(items)
        self._order = item_order(items, self._tree)
        self.pages = PageCount(self._tree, self._size, page_tokens=machine.page_tokens)
        self._waiting: list[_Sequence] = []  # both in the order of rank
        self._running: list[_Sequence] = []
        self._progress: dict[Key, _Progress] = {}
        self._needs: dict[Key, set[str]] = {}
        self._left: dict[int, int] = {}  # calls of an item that are not over
        self._remaining_s: dict[Key, float] = {}
        self._cause: dict[Key, Key | None] = {}
        self._admitted = 0
        self._serial = 0

    def run(self, concurrency: int) -> None:
        for _ in range(concurrency):
            self._next_item()
        while self._waiting or self._running:
            self._step()

    def longest_path(self) -> tuple[Key, ...]:
        """The calls that the last end waited for, oldest first."""
        key = max(self.done, key=lambda done: self.done[done].ends, default=None)
        path: list[Key] = []
        while key is not None:
            path.append(key)
            key = self._cause[key]
        return tuple(reversed(path))

    def _size(self, tokens: tuple[int, ...]) -> int:
        bounds = self._units.size(tokens)
        return bounds.high if self._is_long else bounds.low

    # -- calls -------------------------------------------------------------------------------------

    def _next_item(self) -> None:
        """Let the next item that has calls begin."""
        while self._admitted < len(self._order):
            item = self._order[self._admitted]
            self._admitted += 1
            calls = self._items[item]
            seconds = remaining_seconds(calls, self._hints)
            waiting_for = needs(calls, self._units)
            self._left[item] = len(calls)
            for call in calls:
                key = (item, call.label)
                self._remaining_s[key] = seconds[call.label]
                self._needs[key] = waiting_for[call.label]
                self._cause[key] = None
            for call in calls:
                if not waiting_for[call.label]:
                    self._begin(item, call)
            if calls:
                return

    def _begin(self, item: int, call: PlannedCall) -> None:
        key = (item, call.label)
        attempts = call.attempts.high if self._is_long else call.attempts.low
        prompt = self._size(call.prompt)
        again = max(0, prompt - 1)
        shared = min(self._best.shared(call.prompt), again)
        self._best.insert(call.kept)
        self._progress[key] = _Progress(
            call, self.now_s, prompt * attempts, shared + (attempts - 1) * again, attempts
        )
        self._attempt(key)

    def _attempt(self, key: Key) -> None:
        """Queue the outputs of a call, once more if an attempt was not accepted."""
        progress = self._progress[key]
        call = progress.call
        progress.attempts -= 1
        prompt = self._size(call.prompt)
        output = 0
        if call.kind is CallKind.GENERATE:
            output = self._size(call.output) + self._dropped.get(key, 0)
        progress.sequences = len(call.branches) or call.samples
        if call.branches:
            for size in call.branches:
                self._queue(key, self.pages.own(call.prompt, size), prompt + size, 0)
            return
        for sample in range(call.samples):
            is_own = sample > 0 or progress.attempts > 0
            path = self.pages.own(call.prompt, max(0, output - 1)) if is_own else self.pages.path(call.kept)
            self._queue(key, path, prompt, output)

    def _queue(self, key: Key, path: list[Stretch], prompt: int, output: int) -> None:
        self._serial += 1
        rank = (self.now_s - min(self._remaining_s[key], self._machine.aging_s), self._serial)
        sequence = _Sequence(key=key, path=path, prompt=prompt, output=output, rank=rank)
        insort(self._waiting, sequence, key=_rank)

    def _end(self, sequence: _Sequence) -> None:
        self._running.remove(sequence)
        progress = self._progress[sequence.key]
        progress.output += sequence.output
        progress.sequences -= 1
        self.pages.end_own(sequence.path)
        if progress.sequences:
            return
        if progress.attempts:
            self._attempt(sequence.key)
            return
        self._call_ends(sequence.key, progress)

    def _call_ends(self, key: Key, progress: _Progress) -> None:
        item, label = key
        self.pages.end(progress.call.kept)
        if progress.call.has_more_outputs:
            self.pages.end(progress.call.prompt)
        self.done[key] = SimulatedCall(
            prompt_tokens=progress.prompt,
            shared_tokens=progress.shared,
            output_tokens=progress.output,
            begins=progress.begins,
            ends=self.now_s,
        )
        for call in self._items[item]:
            other = (item, call.label)
            if label in self._needs[other]:
                self._needs[other].discard(label)
                self._cause[other] = key
                if not self._needs[other]:
                    self._begin(item, call)
        self._left[item] -= 1
        if self._left[item] == 0:
            self._next_item()

    # -- passes ------------------------------------------------------------------------------------

    def _step(self) -> None:
        decoding = [sequence for sequence in self._running if sequence.is_decoding]
        works = [(sequence, 1) for sequence in decoding]
        budget = self._machine.step_tokens - len(works)
        for sequence in self._running:
            if not sequence.is_decoding and (count := self._chunk(sequence, budget)):
                works.append((sequence, count))
                budget -= count
        prompts = len(works) - len(decoding)
        budget = self._admit(works, budget)
        is_steady = prompts == 0 and len(works) == len(decoding)
        passes = min(sequence.output - sequence.drawn for sequence in decoding) if is_steady else 1
        assert works, "waiting sequences wait for running ones"
        self._pass_time(works, passes)
        for sequence, count in works:
            self.pages.fill(sequence.path, sequence.computed, sequence.computed + count * passes)
            sequence.computed += count * passes
        self.pages.measure()
        for sequence, _ in works:
            if sequence.computed >= sequence.prompt:
                sequence.drawn += passes
                if sequence.drawn >= sequence.output:
                    self._end(sequence)

    def _pass_time(self, works: Sequence[tuple[_Sequence, int]], passes: int) -> None:
        tokens, contexts = [0, 0], [0, 0]
        for sequence, count in works:
            kind = 1 if sequence.is_decoding else 0
            computed = count * passes
            tokens[kind] += computed
            contexts[kind] += computed * (sequence.computed + (computed + 1) // 2)
        self.passes += passes
        self.now_s += self._machine.cost.seconds(
            passes=passes,
            prompt_tokens=tokens[0],
            output_tokens=tokens[1],
            prompt_context=contexts[0],
            output_context=contexts[1],
            context_read=_context_read(works, passes),
        )

    def _admit(self, works: list[tuple[_Sequence, int]], budget: int) -> int:
        machine = self._machine
        place = 0
        while (
            place < len(self._waiting)
            and len(self._running) < machine.max_running
            and budget >= machine.page_tokens
        ):
            sequence = self._waiting[place]
            found, is_coming = self.pages.cached(sequence.path, sequence.prompt, _MIN_AWAITED_TOKENS)
            if is_coming:
                place += 1
                continue
            del self._waiting[place]
            sequence.computed = min(found, max(0, sequence.prompt - 1))
            insort(self._running, sequence, key=_rank)
            count = self._chunk(sequence, budget)
            if sequence.prompt - sequence.computed > 1:
                self.pages.claim(sequence.path, sequence.prompt)
            works.append((sequence, count))
            budget -= count
        return budget

    def _chunk(self, sequence: _Sequence, budget: int) -> int:
        if sequence.remaining <= budget:
            return sequence.remaining
        page_tokens = self._machine.page_tokens
        border = (sequence.computed + budget) // page_tokens * page_tokens
        return max(0, border - sequence.computed)


def _context_read(works: Sequence[tuple[_Sequence, int]], passes: int) -> int:
    """Tokens of context that passes read: each prompt its own, sequences that generate together what they share."""
    read = 0
    held: dict[int, int] = {}  # by stretch: how much of it sequences that generate read
    growing = 0
    for sequence, count in works:
        if not sequence.is_decoding:
            read += sequence.computed + count
            continue
        growing += 1
        for stretch in sequence.path:
            tokens = min(stretch.end, sequence.computed) - stretch.start
            if tokens > held.get(id(stretch), 0):
                held[id(stretch)] = tokens
    return read + passes * sum(held.values()) + growing * passes * (passes + 1) // 2


def _rank(sequence: _Sequence) -> tuple[float, int]:
    return sequence.rank
