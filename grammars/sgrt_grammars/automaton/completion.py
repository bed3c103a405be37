"""Completions: for a node, one text it denotes whose number of tokens is known.

Chosen bottom-up to need few tokens: of an alternation the cheapest option, of a concatenation the parts
one after the other, spelled together by the cheapest tokens (a dynamic program from the right).
Registers are not looked at here; `uses_register` says that they must be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass

from sgrt_grammars.automaton.arena import Arena
from sgrt_grammars.automaton.derive import Deriver
from sgrt_grammars.automaton.fixpoint import Fixpoint
from sgrt_grammars.automaton.liveness import Liveness
from sgrt_grammars.automaton.node import FIRST_SPECIAL, Action, Kind, Node
from sgrt_grammars.automaton.speller import Speller
from sgrt_grammars.limits import Meter

NO_COST = 1 << 40
_LIKED_BYTES = b'0a "A_-1b'


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """`symbols` are bytes and special tokens (`FIRST_SPECIAL + id`).

    `costs[i]` is the number of tokens that spell `symbols[i:]`. `uses_register`: it captures text in a scope that
    is open already, or repeats itself in one of its own, so it must be tried before it is relied on.
    """

    symbols: tuple[int, ...]
    costs: tuple[int, ...]
    uses_register: bool

    @property
    def cost(self) -> int:
        """Tokens of the whole."""
        return self.costs[0]


def prepend(
    speller: Speller, symbols: tuple[int, ...], tail: Completion
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`symbols` in front of `tail`, with costs."""
    joined = symbols + tail.symbols
    costs = list(tail.costs)
    costs.reverse()
    size = len(tail.symbols)
    for start in range(len(symbols) - 1, -1, -1):
        best = NO_COST
        end = len(joined) - start
        for length, _ in speller.matches(joined, start):
            best = min(best, costs[end - length] + 1)
        costs.append(best)
        size += 1
    costs.reverse()
    return joined, tuple(costs)


def spell(speller: Speller, completion: Completion) -> tuple[int, ...]:
    """The tokens of a completion, fewest first."""
    tokens: list[int] = []
    position = 0
    while position < len(completion.symbols):
        wanted = completion.costs[position] - 1
        length, token = next(
            (length, token)
            for length, token in speller.matches(completion.symbols, position)
            if completion.costs[position + length] == wanted
        )
        tokens.append(token)
        position += length
    return tuple(tokens)


EMPTY_COMPLETION = Completion((), (0,), False)


class Completions:
    """Finds completions of nodes and keeps them."""

    def __init__(
        self,
        arena: Arena,
        deriver: Deriver,
        liveness: Liveness,
        speller: Speller,
        alphabet: int,
        meter: Meter,
    ) -> None:
        self._arena = arena
        self._deriver = deriver
        self._liveness = liveness
        self._speller = speller
        self._alphabet = alphabet
        self._meter = meter
        self._fixpoint: Fixpoint[Completion] = Fixpoint(
            self._rule, self._known, self._store, meter, is_success_final=False
        )

        self.holds_alone: Callable[[Node, tuple[int, ...]], bool] = lambda _node, _symbols: False
        """Whether symbols complete a node exactly, from empty registers; set by the register search."""

    def find(self, node: Node) -> Completion | None:
        """A completion of `node`, None if it denotes nothing that can be spelled."""
        return self._fixpoint.value(node)

    @staticmethod
    def _known(node: Node) -> tuple[Completion | None] | None:
        found = node.completion
        if found is None:
            return None
        return (found if isinstance(found, Completion) else None,)

    @staticmethod
    def _store(node: Node, value: Completion | None) -> None:
        node.completion = value if value is not None else False

    def _of_symbols(self, symbols: tuple[int, ...]) -> Completion | None:
        joined, costs = prepend(self._speller, symbols, EMPTY_COMPLETION)
        return Completion(joined, costs, False) if costs[0] < NO_COST else None

    def _rule(self, node: Node) -> Generator[Node, Completion | None, Completion | None]:
        match node.kind:
            case Kind.EMPTY:
                return EMPTY_COMPLETION
            case Kind.LITERAL:
                return self._of_symbols(tuple(node.data))
            case Kind.SET:
                return self._of_set(node)
            case Kind.SPECIAL:
                return (
                    self._of_symbols((FIRST_SPECIAL + node.low,)) if self._liveness.is_alive(node) else None
                )
            case Kind.ACTION:
                return Completion((), (0,), Action(node.low) >= Action.BEGIN)
            case Kind.INTERSECTION | Kind.COMPLEMENT:
                return self._shortest_word(node)
            case Kind.NOTHING:
                return None
            case _:
                return (yield from self._compound(node))

    def _of_set(self, node: Node) -> Completion | None:
        members = node.members & self._alphabet
        if not members:
            return None
        liked = next((byte for byte in _LIKED_BYTES if members >> byte & 1), None)
        return self._of_symbols(((members & -members).bit_length() - 1 if liked is None else liked,))

    def _compound(self, node: Node) -> Generator[Node, Completion | None, Completion | None]:
        match node.kind:
            case Kind.CONCATENATION:
                return (yield from self._concatenation(node))
            case Kind.ALTERNATION:
                return (yield from self._alternation(node))
            case Kind.REPETITION:
                return (yield from self._repetition(node))
            case Kind.DEFERRED:
                return (yield self._deriver.shorter(node))
            case Kind.SCOPE:
                inner = yield node.parts[0]
                if inner is None or not inner.uses_register:
                    return inner
                uses = not self.holds_alone(node.parts[0], inner.symbols)
                return Completion(inner.symbols, inner.costs, uses)
            case _:
                return (yield node.parts[0])

    def _concatenation(self, node: Node) -> Generator[Node, Completion | None, Completion | None]:
        head = yield node.parts[0]
        if head is None:
            return None
        tail = yield node.parts[1]
        return None if tail is None else self._join(head, tail)

    def _join(self, head: Completion, tail: Completion) -> Completion | None:
        uses = head.uses_register or tail.uses_register
        if not head.symbols:
            return Completion(tail.symbols, tail.costs, uses)
        symbols, costs = prepend(self._speller, head.symbols, tail)
        return Completion(symbols, costs, uses) if costs[0] < NO_COST else None

    def _alternation(self, node: Node) -> Generator[Node, Completion | None, Completion | None]:
        best: Completion | None = None
        longest = self._speller.longest
        for part in sorted(node.parts, key=lambda n: (n.shortest, n.index)):
            if best is not None and -(-part.shortest // longest) >= best.cost:
                break
            found = yield part
            if found is not None and (best is None or _rank(found) < _rank(best)):
                best = found
        return best

    def _repetition(self, node: Node) -> Generator[Node, Completion | None, Completion | None]:
        if node.low == 0 or self._deriver.is_nullable(node.parts[0]):
            return EMPTY_COMPLETION
        body = yield node.parts[0]
        if body is None:
            return None
        symbols, costs = prepend(self._speller, body.symbols * node.low, EMPTY_COMPLETION)
        return Completion(symbols, costs, body.uses_register) if costs[0] < NO_COST else None

    def _shortest_word(self, root: Node) -> Completion | None:
        """The shortest word of a regular node, by breadth over its derivatives."""
        if not self._liveness.is_alive(root):
            return None
        came_from: dict[int, tuple[Node, int]] = {}
        seen = {root.index}
        queue = deque([root])
        while queue:
            node = queue.popleft()
            self._meter.tick()
            if self._deriver.is_nullable(node):
                return self._of_symbols(_path(root, node, came_from))
            for members in self._liveness.classes(node):
                byte = self._representative(members)
                target = self._deriver.derive(node, byte) if byte is not None else self._arena.nothing
                if target.index not in seen and self._liveness.is_alive(target):
                    seen.add(target.index)
                    came_from[target.index] = (node, byte or 0)
                    queue.append(target)
        return None

    def _representative(self, members: int) -> int | None:
        spelled = members & self._alphabet
        if not spelled:
            return None
        liked = next((byte for byte in _LIKED_BYTES if spelled >> byte & 1), None)
        return (spelled & -spelled).bit_length() - 1 if liked is None else liked


def _rank(completion: Completion) -> tuple[int, int]:
    return completion.cost, len(completion.symbols)


def _path(root: Node, node: Node, came_from: dict[int, tuple[Node, int]]) -> tuple[int, ...]:
    symbols: list[int] = []
    while node is not root:
        node, byte = came_from[node.index]
        symbols.append(byte)
    symbols.reverse()
    return tuple(symbols)
