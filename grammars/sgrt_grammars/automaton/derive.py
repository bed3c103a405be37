"""Derivatives by one symbol: the language of what may follow it.

Evaluated without recursion: a node whose operands are not ready is put back on a stack above them.
Needing a node that already waits is left recursion, which is refused rather than followed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from sgrt_grammars.automaton.arena import Arena
from sgrt_grammars.automaton.build import Builder
from sgrt_grammars.automaton.deferred import DeferredTable
from sgrt_grammars.automaton.node import ALL_BYTES, END_OF_TEXT, FIRST_SPECIAL, UNBOUNDED, Action, Kind, Node
from sgrt_grammars.errors import InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.limits import Meter

Step = Callable[[Node], "list[Node]"]
"""Evaluates one node and returns nothing, or returns the operands it still lacks."""


class Deriver:
    """Derivatives, first bytes, ways to pass as empty, and special tokens of the nodes of one arena."""

    def __init__(self, arena: Arena, builder: Builder, deferred: DeferredTable, meter: Meter) -> None:
        self._arena = arena
        self._builder = builder
        self._deferred = deferred
        self._meter = meter
        self._unfolded: dict[int, Node] = {}

    def unfold(self, node: Node) -> Node:
        """What a deferred node stands for."""
        return self._defined(node.low)

    def shorter(self, node: Node) -> Node:
        """What a deferred node is completed by: its short form, or what it stands for."""
        return self._defined(~node.low) if node.has_short else self._defined(node.low)

    def _defined(self, number: int) -> Node:
        found = self._unfolded.get(number)
        if found is None:
            found = self._unfolded[number] = self._builder.build(self._deferred.build(number))
        return found

    def evaluate(self, root: Node, is_done: Callable[[Node], bool], step: Step) -> None:
        """Run `step` on `root` after its operands, deepest first."""
        stack = [root]
        waiting: set[int] = set()
        while stack:
            node = stack[-1]
            if is_done(node):
                stack.pop()
                waiting.discard(node.index)
                continue
            missing = step(node)
            if not missing:
                continue
            waiting.add(node.index)
            for operand in missing:
                if operand.index in waiting:
                    raise InvalidConstraint("a rule is left-recursive: it refers to itself before any text")
            stack.extend(missing)
            self._meter.tick()

    # Ways to pass as the empty text.

    def passes(self, node: Node) -> tuple[tuple[Action, ...], ...]:
        """The action sequences under which `node` may be passed as empty; none if it may not."""
        if node.passes is None:
            self.evaluate(node, lambda n: n.passes is not None, self._passes_step)
        assert node.passes is not None, "evaluated above"
        return node.passes

    def is_nullable(self, node: Node) -> bool:
        """Whether the empty text belongs (checks of registers aside)."""
        return bool(self.passes(node))

    def _passes_step(self, node: Node) -> list[Node]:
        match node.kind:
            case Kind.EMPTY:
                node.passes = ((),)
            case Kind.ACTION:
                node.passes = ((Action(node.low),),)
            case Kind.CONCATENATION:
                return self._passes_concatenation(node)
            case Kind.ALTERNATION:
                return self._passes_alternation(node)
            case Kind.REPETITION:
                return self._passes_repetition(node)
            case Kind.INTERSECTION | Kind.COMPLEMENT:
                return self._passes_boolean(node)
            case Kind.DEFERRED:
                return self._copy_passes(node, self.unfold(node))
            case Kind.SCOPE | Kind.DISTINCT:
                return self._copy_passes(node, node.parts[0])
            case Kind.GUARDED:
                raise AssertionError("guarded nodes are resolved before they are derived again")
            case _:
                node.passes = ()
        return []

    @staticmethod
    def _copy_passes(node: Node, source: Node) -> list[Node]:
        if source.passes is None:
            return [source]
        node.passes = source.passes
        return []

    @staticmethod
    def _passes_concatenation(node: Node) -> list[Node]:
        head, tail = node.parts
        if head.passes is None:
            return [head]
        if not head.passes:
            node.passes = ()
            return []
        if tail.passes is None:
            return [tail]
        node.passes = tuple(dict.fromkeys(a + b for a, b in product(head.passes, tail.passes)))
        return []

    @staticmethod
    def _passes_alternation(node: Node) -> list[Node]:
        missing = [part for part in node.parts if part.passes is None]
        if not missing:
            node.passes = tuple(dict.fromkeys(way for part in node.parts for way in part.passes or ()))
        return missing

    @staticmethod
    def _passes_repetition(node: Node) -> list[Node]:
        body = node.parts[0]
        if node.low == 0:
            node.passes = ((),)
        elif body.passes is None:
            return [body]
        elif any(body.passes) and node.low > 1:
            raise UnsupportedConstraint("a repeated capture may not be empty", keyword="Repetition")
        else:
            node.passes = body.passes
        return []

    @staticmethod
    def _passes_boolean(node: Node) -> list[Node]:
        missing = [part for part in node.parts if part.passes is None]
        if not missing:
            holds = all(part.passes for part in node.parts)
            node.passes = ((),) if holds == (node.kind is Kind.INTERSECTION) else ()
        return missing

    # First bytes.

    def first(self, node: Node) -> int:
        """A set that holds every byte `node` can start with (bit `b` for byte `b`)."""
        if node.first is None:
            self.evaluate(node, lambda n: n.first is not None, self._first_step)
        assert node.first is not None, "evaluated above"
        return node.first

    def _first_step(self, node: Node) -> list[Node]:
        match node.kind:
            case Kind.LITERAL:
                node.first = 1 << node.data[0]
            case Kind.SET:
                node.first = node.members
            case Kind.COMPLEMENT:
                node.first = ALL_BYTES
            case Kind.CONCATENATION:
                return self._first_concatenation(node)
            case (
                Kind.ALTERNATION
                | Kind.REPETITION
                | Kind.INTERSECTION
                | Kind.DEFERRED
                | Kind.SCOPE
                | Kind.DISTINCT
            ):
                return self._first_of_parts(node)
            case _:
                node.first = 0
        return []

    def _first_concatenation(self, node: Node) -> list[Node]:
        head, tail = node.parts
        if head.first is None:
            return [head]
        if not self.passes(head):
            node.first = head.first
        elif tail.first is None:
            return [tail]
        else:
            node.first = head.first | tail.first
        return []

    def _first_of_parts(self, node: Node) -> list[Node]:
        parts = node.parts
        if node.kind is Kind.DEFERRED:
            parts = (self.unfold(node),)
        elif node.kind in (Kind.SCOPE, Kind.DISTINCT):
            parts = parts[:1]
        missing = [part for part in parts if part.first is None]
        if missing:
            return missing
        is_meet = node.kind is Kind.INTERSECTION
        result = ALL_BYTES if is_meet else 0
        for part in parts:
            result = result & (part.first or 0) if is_meet else result | (part.first or 0)
        node.first = result
        return []

    # Special tokens.

    def specials(self, node: Node) -> frozenset[int]:
        """The special tokens `node` can start with."""
        if node.specials is None:
            self.evaluate(node, lambda n: n.specials is not None, self._specials_step)
        assert node.specials is not None, "evaluated above"
        return node.specials

    def _specials_step(self, node: Node) -> list[Node]:
        if node.is_regular:
            node.specials = frozenset()
            return []
        if node.kind is Kind.SPECIAL:
            node.specials = frozenset({node.low})
            return []
        parts = node.parts
        if node.kind is Kind.CONCATENATION:
            parts = parts if self.passes(parts[0]) else parts[:1]
        elif node.kind is Kind.DEFERRED:
            parts = (self.unfold(node),)
        elif node.kind in (Kind.SCOPE, Kind.DISTINCT):
            parts = parts[:1]
        missing = [part for part in parts if part.specials is None]
        if not missing:
            node.specials = frozenset().union(*(part.specials or frozenset() for part in parts))
        return missing

    # Derivatives.

    def derive(self, node: Node, symbol: int) -> Node:
        """What may follow `symbol` in `node`. The result may carry guards (actions due before `symbol`)."""
        found = node.row.get(symbol)
        if found is None:
            self.evaluate(node, lambda n: symbol in n.row, lambda n: self._derive_step(n, symbol))
            found = node.row[symbol]
        return found

    def _derive_step(self, node: Node, symbol: int) -> list[Node]:
        if not self._may_start(node, symbol):
            node.row[symbol] = self._arena.nothing
            return []
        match node.kind:
            case Kind.LITERAL:
                node.row[symbol] = self._arena.literal(node.data[1:])
            case Kind.SET | Kind.SPECIAL:
                node.row[symbol] = self._arena.empty
            case Kind.CONCATENATION:
                return self._derive_concatenation(node, symbol)
            case Kind.ALTERNATION | Kind.INTERSECTION | Kind.COMPLEMENT:
                return self._derive_boolean(node, symbol)
            case Kind.REPETITION:
                return self._derive_repetition(node, symbol)
            case Kind.DEFERRED:
                return self._derive_same(node, self.unfold(node), symbol)
            case Kind.SCOPE | Kind.DISTINCT:
                return self._derive_same(node, node.parts[0], symbol)
            case _:
                node.row[symbol] = self._arena.nothing
        return []

    def _may_start(self, node: Node, symbol: int) -> bool:
        if symbol < END_OF_TEXT:
            return bool(self.first(node) >> symbol & 1)
        return symbol >= FIRST_SPECIAL and symbol - FIRST_SPECIAL in self.specials(node)

    @staticmethod
    def _derive_same(node: Node, source: Node, symbol: int) -> list[Node]:
        if symbol not in source.row:
            return [source]
        node.row[symbol] = source.row[symbol]
        return []

    def _derive_concatenation(self, node: Node, symbol: int) -> list[Node]:
        head, tail = node.parts
        passes = self.passes(head)
        missing = [head] if symbol not in head.row else []
        if passes and symbol not in tail.row:
            missing.append(tail)
        if missing:
            return missing
        arena = self._arena
        result = arena.concatenation(head.row[symbol], tail)
        if passes:
            following = tail.row[symbol]
            result = arena.alternation([result, *(arena.guarded(way, following) for way in passes)])
        node.row[symbol] = result
        return []

    def _derive_boolean(self, node: Node, symbol: int) -> list[Node]:
        missing = [part for part in node.parts if symbol not in part.row]
        if missing:
            return missing
        derived = [part.row[symbol] for part in node.parts]
        if node.kind is Kind.ALTERNATION:
            node.row[symbol] = self._arena.alternation(derived)
        elif node.kind is Kind.INTERSECTION:
            node.row[symbol] = self._arena.intersection(derived)
        else:
            node.row[symbol] = self._arena.complement(derived[0])
        return []

    def _derive_repetition(self, node: Node, symbol: int) -> list[Node]:
        body = node.parts[0]
        if symbol not in body.row:
            return [body]
        arena = self._arena
        low = 0 if self.passes(body) else max(0, node.low - 1)
        high = node.high if node.high == UNBOUNDED else node.high - 1
        node.row[symbol] = arena.concatenation(body.row[symbol], arena.repetition(body, low, high))
        return []
