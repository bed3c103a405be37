"""The machine of one vocabulary: every part of the automaton, shared by all grammars compiled for it."""

from __future__ import annotations

from sgrt_grammars.automaton.arena import Arena
from sgrt_grammars.automaton.build import Builder
from sgrt_grammars.automaton.completion import NO_COST, Completion, Completions, prepend, spell
from sgrt_grammars.automaton.deferred import DeferredTable
from sgrt_grammars.automaton.derive import Deriver
from sgrt_grammars.automaton.liveness import Liveness
from sgrt_grammars.automaton.node import FIRST_SPECIAL, Node
from sgrt_grammars.automaton.search import RegisterSearch
from sgrt_grammars.automaton.simulation import Simulation, Threads
from sgrt_grammars.automaton.speller import Speller
from sgrt_grammars.automaton.walk import Masks
from sgrt_grammars.expression import Expression
from sgrt_grammars.limits import Limits, Meter
from sgrt_grammars.vocabulary import Vocabulary


class Machine:
    """Owns the nodes of one vocabulary and everything known about them. Not thread-safe by itself."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits) -> None:
        self.vocabulary = vocabulary
        self.limits = limits
        self.meter = Meter(limits)
        self.alphabet = spelled_bytes(vocabulary)
        self.deferred = DeferredTable()
        self.arena = Arena(self.meter)
        self.builder = Builder(self.arena, self.deferred, limits, self.alphabet)
        self.deriver = Deriver(self.arena, self.builder, self.deferred, self.meter)
        self.speller = Speller(vocabulary.trie)
        self.liveness = Liveness(self.arena, self.deriver, self.alphabet, vocabulary.size, self.meter)
        self.completions = Completions(
            self.arena, self.deriver, self.liveness, self.speller, self.alphabet, self.meter
        )
        self.simulation = Simulation(self.arena, self.deriver)
        self.search = RegisterSearch(
            self.deriver, self.liveness, self.completions, self.simulation, self.alphabet, self.meter
        )
        self.masks = Masks(
            vocabulary, self.arena, self.deriver, self.liveness, self.simulation, self.search, self.meter
        )

    def build(self, expression: Expression) -> Node:
        """The node of an expression."""
        return self.builder.build(expression)

    def completion(self, threads: Threads, text: bytes | bytearray) -> Completion | None:
        """The cheapest completion known of any of `threads`."""
        best: Completion | None = None
        for node, registers in threads:
            found = self.completions.find(node)
            if found is not None and found.uses_register:
                symbols = self.search.complete(node, registers, text)
                found = None if symbols is None else self._spelled(symbols)
            if found is not None and (best is None or found.cost < best.cost):
                best = found
        return best

    def _spelled(self, symbols: tuple[int, ...]) -> Completion:
        joined, costs = prepend(self.speller, symbols, Completion((), (0,), False))
        return Completion(joined, costs, True)

    def cost(self, threads: Threads, text: bytes | bytearray) -> int:
        """Tokens of the cheapest completion known."""
        found = self.completion(threads, text)
        return NO_COST if found is None else found.cost

    def witness(self, threads: Threads, text: bytes | bytearray) -> tuple[int, ...] | None:
        """The tokens of the cheapest completion known."""
        found = self.completion(threads, text)
        return None if found is None or found.cost >= NO_COST else spell(self.speller, found)

    @property
    def num_bytes(self) -> int:
        """A rough count of the memory held by nodes and masks."""
        return 600 * len(self.arena.nodes) + self.masks.num_bytes


def spelled_bytes(vocabulary: Vocabulary) -> int:
    """The bytes that a token of their own spells, as a bit set."""
    members = 0
    for token, text in enumerate(vocabulary.tokens):
        if text is not None and len(text) == 1 and vocabulary.text(token):
            members |= 1 << text[0]
    return members


__all__ = ["FIRST_SPECIAL", "Machine", "spelled_bytes"]
