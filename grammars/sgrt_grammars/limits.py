"""Budgets of compilation and of masks, and the clock that watches them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from sgrt_grammars.errors import CompileLimitExceeded


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one compilation, and each mask after it, may cost.

    `time_s`: seconds of one compilation. `operation_time_s`: seconds of one mask or advance.
    `max_states`: automaton states one operation may create. `max_depth`: nesting of an expression.
    `max_mask_nodes`: trie nodes one mask may visit. `max_operation_bytes`: memory one operation may take, roughly.
    """

    time_s: float = 10.0
    operation_time_s: float = 5.0
    max_states: int = 1_000_000
    max_depth: int = 100_000
    max_mask_nodes: int = 20_000_000
    max_operation_bytes: int = 1 << 30

    def __post_init__(self) -> None:
        """Refuse budgets that nothing could meet."""
        for name, value in asdict(self).items():
            if value <= 0:
                raise ValueError(f"Limits.{name} must be positive, got {value}")


class Meter:
    """Counts the work of one operation and raises when a budget is spent."""

    __slots__ = ("_clock", "_deadline", "_limits", "_nodes", "_states", "_ticks")

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self.restart(limits.operation_time_s)

    def restart(self, time_s: float) -> None:
        """Start a fresh operation that may take `time_s` seconds."""
        self._deadline = self._clock() + time_s
        self._states = 0
        self._nodes = 0
        self._ticks = 0

    def state_created(self) -> None:
        """One more state of the automaton."""
        self._states += 1
        if self._states > self._limits.max_states:
            raise CompileLimitExceeded(
                f"more than {self._limits.max_states} automaton states in one operation; simplify the "
                "constraint or raise Limits.max_states",
                limit="max_states",
            )
        self.tick()

    def nodes_visited(self, count: int) -> None:
        """`count` more nodes of the token trie."""
        self._nodes += count
        if self._nodes > self._limits.max_mask_nodes:
            raise CompileLimitExceeded(
                f"a mask visited more than {self._limits.max_mask_nodes} trie nodes; simplify the constraint "
                "or raise Limits.max_mask_nodes",
                limit="max_mask_nodes",
            )
        self.tick()

    def tick(self) -> None:
        """Look at the clock now and then."""
        self._ticks += 1
        if self._ticks & 255 == 0 and self._clock() > self._deadline:
            raise CompileLimitExceeded(
                "the time budget of the grammar ran out; simplify the constraint or raise Limits.time_s",
                limit="time_s",
            )
