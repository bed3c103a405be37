"""Completions that respect the registers, and liveness under them.

Most completions capture nothing and need no search. Where one does, it is tried; if it repeats a recorded text,
a best-first search over exact steps finds another or shows that there is none, so that a matcher never
enters an array of unique items that has no item left.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator

from sgrt_grammars.automaton.completion import Completions
from sgrt_grammars.automaton.derive import Deriver
from sgrt_grammars.automaton.fixpoint import Fixpoint
from sgrt_grammars.automaton.liveness import Liveness
from sgrt_grammars.automaton.node import FIRST_SPECIAL, UNBOUNDED, Action, Kind, Node
from sgrt_grammars.automaton.registers import NO_REGISTERS, Registers, ScopeRegister
from sgrt_grammars.automaton.simulation import Simulation, Thread, Threads
from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.limits import Meter

SMALL_LANGUAGE = 10_000
"""A captured language of more words than this cannot be used up, for all that matters."""
_EXACT_EXPANSIONS = 1_000
_MAX_EXPANSIONS = 50_000
_MIN_VARIANTS = 8
"""Bytes tried at least of those that lead to one node: what is captured later may need some of them."""


class RegisterSearch:
    """Decides what can still be completed under given registers."""

    def __init__(
        self,
        deriver: Deriver,
        liveness: Liveness,
        completions: Completions,
        simulation: Simulation,
        alphabet: int,
        meter: Meter,
    ) -> None:
        self._deriver = deriver
        self._liveness = liveness
        self._completions = completions
        self._simulation = simulation
        self._alphabet = alphabet
        self._meter = meter
        self._counts: Fixpoint[int] = Fixpoint(
            self._count_rule, _known_count, _store_count, meter, is_success_final=False
        )
        self._visible: dict[int, bool] = {}
        self._open_scopes: set[int] = set()
        self._at_head: Fixpoint[bool] = Fixpoint(
            self._head_rule, self._known_tight, self._store_tight, meter, is_success_final=True
        )
        self._inside: Fixpoint[bool] = Fixpoint(
            self._inside_rule, self._known_visible, self._store_visible, meter, is_success_final=True
        )
        liveness.is_satisfiable_scope = self._is_satisfiable_scope
        completions.holds_alone = lambda node, symbols: self._holds(Thread(node, NO_REGISTERS), symbols, b"")

    def _is_satisfiable_scope(self, node: Node) -> bool:
        """Whether the body of a scope, which is alive, has a text in which nothing is twice.

        A scope within itself is taken for one that has: what is asked is whether the outer one can be completed
        at all, and that does not go round in circles.
        """
        if node.index in self._open_scopes:
            return True
        self._open_scopes.add(node.index)
        try:
            body = node.parts[0]
            return not self.is_tight(body) or self.complete(body, NO_REGISTERS, b"") is not None
        finally:
            self._open_scopes.discard(node.index)

    def is_live(self, thread: Thread, text: bytes | bytearray) -> bool:
        """Whether anything can follow in `thread`, whose past is `text`."""
        node, registers = thread
        if not self._liveness.is_alive(node):
            return False
        if registers.is_trivial or not self.is_tight(node):
            return True
        return self.complete(node, registers, text) is not None

    def live(self, threads: Threads, text: bytes | bytearray) -> Threads:
        """The threads in which something can follow."""
        return tuple(thread for thread in threads if self.is_live(thread, text))

    def complete(self, node: Node, registers: Registers, text: bytes | bytearray) -> tuple[int, ...] | None:
        """Symbols that complete `node` under `registers`, None if there are none."""
        known = self._completions.find(node)
        if known is None:
            return None
        if not known.uses_register or self._holds(Thread(node, registers), known.symbols, text):
            return known.symbols
        return self._search(Thread(node, registers), bytes(text))

    def _holds(self, thread: Thread, symbols: tuple[int, ...], text: bytes | bytearray) -> bool:
        threads: Threads = (thread,)
        past = bytearray(text)
        for symbol in symbols:
            threads = self._simulation.step(threads, symbol, past)
            if symbol < FIRST_SPECIAL:
                past.append(symbol)
        return self._simulation.accepts(threads, past)

    def _search(self, start: Thread, text: bytes) -> tuple[int, ...] | None:
        """Best first by the estimated length of the whole, as far as a few expansions go, then of what is left.

        Where several texts must differ, the estimates, which know of none, are all too low by a little, and the
        first search would try most of what is shorter than the answer.
        """
        queue: list[tuple[int, int, int, Thread, bytes, tuple[int, ...]]] = [(0, 0, 0, start, text, ())]
        seen: set[tuple[Node, Registers, bytes]] = set()
        pushed = expanded = 0
        while queue:
            *_, thread, past, symbols = heapq.heappop(queue)
            if self._simulation.accepts((thread,), past):
                return symbols
            expanded += 1
            self._meter.tick()
            if expanded == _EXACT_EXPANSIONS:
                queue = [(one[0] - len(one[-1]), *one[1:]) for one in queue]
                heapq.heapify(queue)
            if expanded > _MAX_EXPANSIONS:
                raise CompileLimitExceeded("the search for distinct values ran out", limit="max_states")
            for symbol, following in self._successors(thread, past):
                now = past + bytes([symbol]) if symbol < FIRST_SPECIAL else past
                key = (following.node, following.registers, _captured(following.registers, now))
                estimate = self._completions.find(following.node)
                if key in seen or estimate is None:
                    continue
                seen.add(key)
                pushed += 1
                cost = len(estimate.symbols) + (0 if expanded >= _EXACT_EXPANSIONS else len(symbols) + 1)
                heapq.heappush(queue, (cost, -len(symbols), pushed, following, now, (*symbols, symbol)))
        return None

    def _successors(self, thread: Thread, text: bytes) -> Generator[tuple[int, Thread], None, None]:
        """Steps by every symbol; of bytes that lead to one node, no more than could matter."""
        limit = _MIN_VARIANTS + _num_recorded(thread.registers.scope)
        used: dict[int, int] = {}
        members = self._deriver.first(thread.node) & self._alphabet
        bytes_ = [byte for byte in _BY_LIKING if members >> byte & 1]
        for symbol in (*bytes_, *(FIRST_SPECIAL + token for token in self._deriver.specials(thread.node))):
            target = self._deriver.derive(thread.node, symbol)
            used[target.index] = used.get(target.index, 0) + 1
            if used[target.index] <= limit:
                for following in self._simulation.step((thread,), symbol, text):
                    yield symbol, following

    # Which nodes can run out of distinct texts.

    def is_tight(self, node: Node) -> bool:
        """Whether every way on has a capture due soon, in an open scope, with few texts to choose from.

        Deferred expressions are looked into only where the next symbol may come from them, so a choice from a
        large language is checked when it is complete, one from a small language against its whole future.
        """
        if node.is_regular:
            return False
        if node.tight is None:
            return bool(self._at_head.value(node))
        return node.tight

    def _is_visibly_tight(self, node: Node) -> bool:
        """The same with nothing unfolded."""
        if node.is_regular:
            return False
        known = self._visible.get(node.index)
        return bool(self._inside.value(node)) if known is None else known

    def _head_rule(self, node: Node) -> Generator[Node, bool | None, bool | None]:
        if node.kind is Kind.DEFERRED:
            return (yield self._deriver.unfold(node))
        return (yield from self._tight_rule(node, is_head=True))

    def _inside_rule(self, node: Node) -> Generator[Node, bool | None, bool | None]:
        return (yield from self._tight_rule(node, is_head=False))

    def _tight_rule(self, node: Node, *, is_head: bool) -> Generator[Node, bool | None, bool | None]:
        match node.kind:
            case Kind.CONCATENATION:
                return (yield from self._tight_chain(node, is_head=is_head))
            case Kind.ALTERNATION:
                for part in node.parts:
                    if self._liveness.is_alive(part) and not (yield part):
                        return None
                return True
            case Kind.REPETITION if node.low > 0:
                return (yield node.parts[0])
            case Kind.DISTINCT:
                return (yield node.parts[0])
            case _:
                return None

    def _tight_chain(self, node: Node, *, is_head: bool) -> Generator[Node, bool | None, bool | None]:
        run: list[Node] = []
        current = node
        while True:
            part = current.parts[0] if current.kind is Kind.CONCATENATION else current
            if part.kind is Kind.ACTION and part.low >= Action.END_BYTES:
                if self._is_small(run):
                    return True
                run = []
            else:
                run.append(part)
                if not part.is_regular and ((yield part) if is_head else self._is_visibly_tight(part)):
                    return True
            if current.kind is not Kind.CONCATENATION:
                return None
            is_head = is_head and self._deriver.is_nullable(part)
            current = current.parts[1]

    @staticmethod
    def _known_tight(node: Node) -> tuple[bool | None] | None:
        if node.is_regular:
            return (None,)
        return None if node.tight is None else (node.tight or None,)

    @staticmethod
    def _store_tight(node: Node, value: bool | None) -> None:
        node.tight = bool(value)

    def _known_visible(self, node: Node) -> tuple[bool | None] | None:
        if node.is_regular:
            return (None,)
        known = self._visible.get(node.index)
        return None if known is None else (known or None,)

    def _store_visible(self, node: Node, value: bool | None) -> None:
        self._visible[node.index] = bool(value)

    def _is_small(self, run: list[Node]) -> bool:
        total = 1
        for part in run:
            count = self._counts.value(part)
            if count is None:
                return False
            total *= count
        return total <= SMALL_LANGUAGE

    def _count_rule(self, node: Node) -> Generator[Node, int | None, int | None]:
        """Number of texts, None when infinite or large."""
        if not self._liveness.is_alive(node):
            return 0
        match node.kind:
            case Kind.EMPTY | Kind.ACTION | Kind.LITERAL | Kind.SPECIAL:
                return 1
            case Kind.SET:
                return (node.members & self._alphabet).bit_count()
            case Kind.INTERSECTION | Kind.COMPLEMENT:
                return (yield from self._count_words(node))
            case Kind.REPETITION:
                return (yield from self._count_repetition(node))
            case Kind.DEFERRED:
                return (yield self._deriver.unfold(node))
            case _:
                is_product = node.kind is Kind.CONCATENATION
                parts = node.parts[:1] if node.kind in (Kind.SCOPE, Kind.DISTINCT) else node.parts
                total = 1 if is_product else 0
                for part in parts:
                    count = yield part
                    if count is None:
                        return None
                    total = total * count if is_product else total + count
                return total if total <= SMALL_LANGUAGE else None

    def _count_words(self, node: Node) -> Generator[Node, int | None, int | None]:
        total = int(self._deriver.is_nullable(node))
        for members in self._liveness.classes(node):
            spelled = members & self._alphabet
            if not spelled:
                continue
            target = self._deriver.derive(node, (spelled & -spelled).bit_length() - 1)
            if not self._liveness.is_alive(target):
                continue
            count = yield target
            if count is None:
                return None
            total += count * spelled.bit_count()
        return total if total <= SMALL_LANGUAGE else None

    def _count_repetition(self, node: Node) -> Generator[Node, int | None, int | None]:
        count = yield node.parts[0]
        if count is None or node.high >= UNBOUNDED:
            return None
        total = 0
        for times in range(node.low, node.high + 1):
            total += count**times if times < 64 else SMALL_LANGUAGE
            if total > SMALL_LANGUAGE:
                return None
        return total


_BY_LIKING = sorted(range(256), key=lambda byte: (not 0x20 <= byte < 0x7F, byte in b'"\\', byte))


def _num_recorded(scope: ScopeRegister | None) -> int:
    total = 0
    while scope is not None:
        total += len(scope.recorded)
        scope = scope.outer
    return total


def _captured(registers: Registers, text: bytes) -> bytes:
    capture = registers.capture
    while capture is not None and capture.outer is not None:
        capture = capture.outer
    return text[capture.start :] if capture is not None else b""


def _known_count(node: Node) -> tuple[int | None] | None:
    if node.count is None:
        return None
    return (None if node.count < 0 else node.count,)


def _store_count(node: Node, value: int | None) -> None:
    node.count = -1 if value is None else value
