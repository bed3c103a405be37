"""Which nodes denote something: no matcher may enter a node from which nothing can follow.

Regular nodes with intersections and complements are decided by exploring their derivatives, one byte
of each class; the others by a least fixpoint. Both are lazy and remembered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from itertools import combinations, cycle

from sgrt_grammars.automaton.arena import Arena
from sgrt_grammars.automaton.derive import Deriver
from sgrt_grammars.automaton.fixpoint import Fixpoint
from sgrt_grammars.automaton.node import ALL_BYTES, Kind, Node
from sgrt_grammars.limits import Meter

_FEW = 1000
"""Derivatives of a short search."""


class Liveness:
    """Decides emptiness under the bytes that are tokens of their own (`alphabet`, bit `b` for byte `b`).

    Only those are relied on, so that any state can be completed byte by byte; byte-level and byte-fallback
    vocabularies have all of them.
    """

    def __init__(self, arena: Arena, deriver: Deriver, alphabet: int, num_tokens: int, meter: Meter) -> None:
        self._arena = arena
        self._deriver = deriver
        self._alphabet = alphabet
        self._num_tokens = num_tokens
        self._meter = meter
        self._fixpoint: Fixpoint[bool] = Fixpoint(
            self._rule, self._known, self._store, meter, is_success_final=True
        )
        self.is_satisfiable_scope: Callable[[Node], bool] = lambda _node: True
        """Whether a scope can be satisfied from an empty register; set by the register search."""

    def is_alive(self, node: Node) -> bool:
        """Whether some text belongs to `node`."""
        if node.alive is None:
            return bool(self._fixpoint.value(node))
        return node.alive

    @staticmethod
    def _known(node: Node) -> tuple[bool | None] | None:
        return None if node.alive is None else (node.alive or None,)

    @staticmethod
    def _store(node: Node, value: bool | None) -> None:
        node.alive = bool(value)

    def _rule(self, node: Node) -> Generator[Node, bool | None, bool | None]:
        match node.kind:
            case Kind.NOTHING:
                return None
            case Kind.LITERAL:
                return all(self._alphabet >> byte & 1 for byte in node.data) or None
            case Kind.SET:
                return bool(node.members & self._alphabet) or None
            case Kind.SPECIAL:
                return 0 <= node.low < self._num_tokens or None
            case Kind.INTERSECTION | Kind.COMPLEMENT:
                return self._explore(node) or None
            case Kind.EMPTY | Kind.ACTION:
                return True
            case _:
                return (yield from self._compound(node))

    def _compound(self, node: Node) -> Generator[Node, bool | None, bool | None]:
        match node.kind:
            case Kind.CONCATENATION:
                return (yield node.parts[0]) and (yield node.parts[1])
            case Kind.ALTERNATION:
                for part in node.parts:
                    if (yield part):
                        return True
                return None
            case Kind.REPETITION:
                return node.low == 0 or (yield node.parts[0])
            case Kind.DEFERRED:
                return (yield self._deriver.shorter(node))
            case _:
                is_alive = yield node.parts[0]
                if is_alive and node.kind is Kind.SCOPE:
                    return self.is_satisfiable_scope(node) or None
                return is_alive

    def _explore(self, root: Node) -> bool:
        """Search the derivatives of a regular node for one that accepts.

        A part of an intersection that leaves another one nothing makes the whole empty, however many derivatives
        the rest has (a long counted text that must not hold what it has held already). So where a short search says
        nothing, each complement is looked at beside one other part alone, before a long one.
        """
        pairs = self._pairs(root)
        if any(pair.kind is Kind.NOTHING or pair.alive is False for pair in pairs):
            return False
        found = self._accepting(root, _FEW if pairs else None)
        if found is not None:
            return found
        if any(self._accepting(pair, _FEW) is False for pair in pairs):
            return False
        return bool(self._accepting(root, None))

    def _pairs(self, root: Node) -> list[Node]:
        """Each complement of an intersection of three and more parts, with one other part."""
        if root.kind is not Kind.INTERSECTION or len(root.parts) < 3:
            return []
        return [
            self._arena.intersection(pair)
            for pair in combinations(root.parts, 2)
            if any(part.kind is Kind.COMPLEMENT for part in pair)
        ]

    def _accepting(self, root: Node, most: int | None) -> bool | None:
        """Whether the node has a text; None where more than `most` derivatives would have to be seen.

        Long texts of few states are found by going deep, short ones of many by going wide, so both take turns.
        """
        parent: dict[int, Node | None] = {root.index: None}
        waiting = deque([root])
        seen = [root]
        for is_deep in cycle((True, False)):
            if not waiting:
                break
            node = waiting.pop() if is_deep else waiting.popleft()
            self._meter.tick()
            if node.alive is not None or self._deriver.is_nullable(node):
                if node.alive is False:
                    continue
                self._mark_path(node, parent)
                return True
            if most is not None and len(seen) > most:
                return None
            for members in reversed(self.classes(node)):
                spelled = members & self._alphabet
                if not spelled:
                    continue
                target = self._deriver.derive(node, (spelled & -spelled).bit_length() - 1)
                if target.kind is not Kind.NOTHING and target.index not in parent:
                    parent[target.index] = node
                    waiting.append(target)
                    seen.append(target)
        for node in seen:
            node.alive = False
        return False

    @staticmethod
    def _mark_path(node: Node, parent: dict[int, Node | None]) -> None:
        current: Node | None = node
        while current is not None:
            current.alive = True
            current = parent[current.index]

    def classes(self, node: Node) -> tuple[int, ...]:
        """A partition of the bytes within whose parts all derivatives of a regular node are equal."""
        if node.classes is None:
            self._deriver.evaluate(node, lambda n: n.classes is not None, self._classes_step)
        assert node.classes is not None, "evaluated above"
        return node.classes

    def _classes_step(self, node: Node) -> list[Node]:
        match node.kind:
            case Kind.LITERAL | Kind.SET:
                members = node.members or 1 << node.data[0]
                node.classes = (members, ALL_BYTES & ~members) if members != ALL_BYTES else (members,)
                return []
            case Kind.CONCATENATION:
                parts = node.parts if self._deriver.is_nullable(node.parts[0]) else node.parts[:1]
            case _:
                parts = node.parts
        missing = [part for part in parts if part.classes is None]
        if not missing:
            node.classes = _refined([part.classes or () for part in parts])
        return missing


def _refined(partitions: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The coarsest partition finer than all of `partitions`."""
    result: tuple[int, ...] = (ALL_BYTES,)
    for partition in partitions:
        result = tuple(one & other for one in result for other in partition if one & other)
    return result
