"""A position in the automaton: threads, the text behind them, and the way back."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sgrt_grammars.automaton.machine import Machine
from sgrt_grammars.automaton.node import FIRST_SPECIAL, Node
from sgrt_grammars.automaton.registers import NO_REGISTERS, Registers, ScopeRegister
from sgrt_grammars.automaton.simulation import Thread, Threads
from sgrt_grammars.automaton.walk import NodeMask
from sgrt_grammars.errors import BudgetTooSmall, UnsatisfiableConstraint
from sgrt_grammars.mask import TokenMask, set_tokens

_MAX_FORCED = 4096


class Cursor:
    """The mutable state of one generation over a shared `Machine`."""

    __slots__ = ("_machine", "_text", "_threads", "_trail", "_witness")

    def __init__(self, machine: Machine, root: Node) -> None:
        self._machine = machine
        self._threads: Threads = (Thread(root, NO_REGISTERS),)
        self._text = bytearray()
        self._trail: list[tuple[Threads, int, tuple[int, ...] | None]] = []
        self._witness: tuple[int, ...] | None = None

    def fork(self) -> Cursor:
        """An independent copy."""
        copy = object.__new__(Cursor)
        copy._machine = self._machine
        copy._threads = self._threads
        copy._text = bytearray(self._text)
        copy._trail = list(self._trail)
        copy._witness = self._witness
        return copy

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        return self._machine.simulation.accepts(self._threads, self._text)

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing but the end can follow."""
        machine = self._machine
        return all(not machine.deriver.first(n) and not machine.deriver.specials(n) for n, _ in self._threads)

    @property
    def threads(self) -> Threads:
        """The alternatives of the current state."""
        return self._threads

    def advance(self, token: int) -> bool:
        """Take `token`; False, and nothing changes, if it is not allowed."""
        machine = self._machine
        if not 0 <= token < machine.vocabulary.size:
            return False
        machine.meter.restart(machine.limits.operation_time_s)
        following = self._after(self._threads, token)
        if not following:
            return False
        witness = self._witness
        self._trail.append((self._threads, len(self._text), witness))
        self._witness = witness[1:] if witness and witness[0] == token else None
        self._threads = following
        self._text += machine.vocabulary.text(token) or b""
        return True

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens."""
        if not 0 <= count <= len(self._trail):
            raise ValueError(f"cannot roll back {count} of {len(self._trail)} tokens")
        for _ in range(count):
            self._threads, length, self._witness = self._trail.pop()
            del self._text[length:]

    def _after(self, threads: Threads, token: int) -> Threads:
        """The live threads after `token`."""
        machine = self._machine
        data = machine.vocabulary.text(token)
        past = bytearray(self._text)
        if data is None:
            threads = machine.simulation.step(threads, FIRST_SPECIAL + token, past)
        else:
            for byte in data:
                threads = machine.simulation.step(threads, byte, past)
                if not threads:
                    return ()
                past.append(byte)
        return machine.search.live(threads, past)

    # Masks.

    def mask_at_hand(self, _row: TokenMask, _remaining: int | None) -> bool:
        """Never: nothing here is cheap enough to skip the checks around it."""
        return False

    def mask(self, row: TokenMask, remaining: int | None) -> None:
        """Fill `row` with the tokens allowed now; with `remaining`, only those that still close in time."""
        row[:] = 0
        for thread in self._threads:
            self._add_thread(row, thread)
        if remaining is not None:
            self._apply_budget(row, remaining)
        if self.is_accepting:
            set_tokens(row, self._machine.vocabulary.end_token_ids)

    def node_mask(self) -> tuple[int, TokenMask] | None:
        """(id, row) of the cached mask, if this state's mask depends on no register."""
        if len(self._threads) != 1:
            return None
        node, registers = self._threads[0]
        found = self._machine.masks.of(node)
        if found.single.size or found.multiple.size or (found.tight.size and not registers.is_trivial):
            return None
        row = found.row.copy()
        set_tokens(row, found.tight)
        if self.is_accepting:
            set_tokens(row, self._machine.vocabulary.end_token_ids)
        return node.index, row

    def _add_thread(self, row: TokenMask, thread: Thread) -> None:
        found = self._machine.masks.of(thread.node)
        registers = thread.registers
        if not registers.is_trivial and self._machine.search.is_tight(thread.node):
            self._verify(row, thread, _all_tokens(found))
            return
        row |= found.row
        if registers.is_trivial:
            set_tokens(row, found.tight)
        else:
            self._verify(row, thread, found.tight.tolist())
        if found.single.size:
            if self._may_collide(registers):
                self._verify(row, thread, found.single.tolist())
            else:
                set_tokens(row, found.single)
        self._verify(row, thread, found.multiple.tolist())

    def _verify(self, row: TokenMask, thread: Thread, tokens: Iterable[int]) -> None:
        set_tokens(row, [token for token in tokens if self._after((thread,), token)])

    @staticmethod
    def _may_collide(registers: Registers) -> bool:
        """Whether the text captured now may turn out to be one already recorded in a scope that is open.

        The scope it is compared with is one of them, though not the innermost where others opened within it.
        """
        scope: ScopeRegister | None = registers.scope
        while scope is not None and not scope.recorded:
            scope = scope.outer
        return scope is not None

    # Budgets.

    def witness(self, within: int | None = None) -> tuple[int, ...]:
        """Tokens that complete the text. All that are known are looked at, so `within` changes nothing."""
        known = self._witness
        computed = self._machine.witness(self._threads, self._text)
        if known is None or (computed is not None and len(computed) < len(known)):
            known = computed
        if known is None:
            raise UnsatisfiableConstraint("no text of this vocabulary completes the constraint")
        self._witness = known
        return known

    def _apply_budget(self, row: TokenMask, remaining: int) -> None:
        witness = self.witness()
        if remaining < len(witness):
            raise BudgetTooSmall(needed=len(witness), given=remaining)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        row[:] = 0
        past = bytes(self._text)
        kept = [
            int(token)
            for token in allowed
            if self._machine.cost(
                self._after(self._threads, int(token)),
                past + (self._machine.vocabulary.text(int(token)) or b""),
            )
            < remaining
        ]
        set_tokens(row, kept)
        if witness:
            set_tokens(row, witness[:1])

    # Forced text.

    def forced(self) -> tuple[int, ...]:
        """The symbols that must follow, up to the first choice."""
        machine = self._machine
        symbols: list[int] = []
        threads, past = self._threads, bytearray(self._text)
        while len(symbols) < _MAX_FORCED and not machine.simulation.accepts(threads, past):
            step = self._only_symbol(threads, past)
            if step is None:
                break
            symbol, threads = step
            symbols.append(symbol)
            if symbol < FIRST_SPECIAL:
                past.append(symbol)
        return tuple(symbols)

    def _only_symbol(self, threads: Threads, past: bytearray) -> tuple[int, Threads] | None:
        found: tuple[int, Threads] | None = None
        for symbol in self.symbols(threads):
            following = self._machine.simulation.step(threads, symbol, past)
            following = self._machine.search.live(following, past_after(past, symbol))
            if not following:
                continue
            if found is not None:
                return None
            found = symbol, following
        return found

    def choices(self) -> list[int]:
        """Symbols (bytes, and `FIRST_SPECIAL + id`) that may come next."""
        past = self._text
        return [
            symbol
            for symbol in self.symbols(self._threads)
            if self._machine.search.live(
                self._machine.simulation.step(self._threads, symbol, past), past_after(past, symbol)
            )
        ]

    def symbols(self, threads: Threads) -> list[int]:
        """Symbols that may come next; some may turn out to be dead."""
        deriver = self._machine.deriver
        members = 0
        specials: set[int] = set()
        for node, _ in threads:
            members |= deriver.first(node)
            specials |= deriver.specials(node)
        members &= self._machine.alphabet
        return [b for b in range(256) if members >> b & 1] + [FIRST_SPECIAL + t for t in sorted(specials)]


def past_after(past: bytearray, symbol: int) -> bytearray:
    """`past` with one more symbol."""
    return past + bytes([symbol]) if symbol < FIRST_SPECIAL else past


def _all_tokens(found: NodeMask) -> list[int]:
    plain: NDArray[np.int64] = np.flatnonzero(np.unpackbits(found.row.view(np.uint8), bitorder="little"))
    return sorted({*plain.tolist(), *found.single.tolist(), *found.multiple.tolist(), *found.tight.tolist()})
