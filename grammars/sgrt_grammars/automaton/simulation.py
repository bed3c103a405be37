"""Threads: alternatives of (node, registers) advanced together, symbol by symbol."""

from __future__ import annotations

from typing import NamedTuple

from sgrt_grammars.automaton.arena import Arena
from sgrt_grammars.automaton.derive import Deriver
from sgrt_grammars.automaton.node import Actions, Kind, Node
from sgrt_grammars.automaton.registers import Registers


class Thread(NamedTuple):
    """One alternative of a matcher's state."""

    node: Node
    registers: Registers


class Resolved(NamedTuple):
    """A derivative taken apart: where nothing is due, and where actions are due first."""

    plain: Node
    guards: tuple[tuple[Actions, Node], ...]


Threads = tuple[Thread, ...]


class Simulation:
    """Exact steps of threads, checks of registers included; emptiness is not looked at here."""

    def __init__(self, arena: Arena, deriver: Deriver) -> None:
        self._arena = arena
        self._deriver = deriver

    def resolve(self, node: Node) -> Resolved:
        """The parts of a derivative."""
        if isinstance(node.resolved, Resolved):
            return node.resolved
        if node.kind is Kind.GUARDED:
            found = Resolved(self._arena.nothing, ((node.actions, node.parts[0]),))
        elif node.kind is Kind.ALTERNATION and any(part.kind is Kind.GUARDED for part in node.parts):
            plain = self._arena.alternation(part for part in node.parts if part.kind is not Kind.GUARDED)
            guards = tuple((part.actions, part.parts[0]) for part in node.parts if part.kind is Kind.GUARDED)
            found = Resolved(plain, guards)
        else:
            found = Resolved(node, ())
        node.resolved = found
        return found

    def step(self, threads: Threads, symbol: int, text: bytes | bytearray) -> Threads:
        """The threads after `symbol`; `text` is what came before it."""
        by_registers: dict[Registers, Node] = {}
        for node, registers in threads:
            plain, guards = self.resolve(self._deriver.derive(node, symbol))
            self._add(by_registers, plain, registers)
            for actions, target in guards:
                after = registers.apply(actions, text)
                if after is not None:
                    self._add(by_registers, target, after)
        return tuple(Thread(node, registers) for registers, node in by_registers.items())

    def _add(self, by_registers: dict[Registers, Node], node: Node, registers: Registers) -> None:
        if node is self._arena.nothing:
            return
        known = by_registers.get(registers)
        by_registers[registers] = node if known is None else self._arena.alternation((known, node))

    def accepts(self, threads: Threads, text: bytes | bytearray) -> bool:
        """Whether the text may end here."""
        return any(
            registers.apply(way, text) is not None
            for node, registers in threads
            for way in self._deriver.passes(node)
        )
