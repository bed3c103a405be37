"""The automaton in Python and numpy, behind the seam."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

from sgrt_grammars.automaton.core import CoreCursor
from sgrt_grammars.automaton.cursor import Cursor
from sgrt_grammars.automaton.machine import Machine
from sgrt_grammars.automaton.node import Node
from sgrt_grammars.expression import Expression
from sgrt_grammars.limits import Limits
from sgrt_grammars.mask import TokenMask
from sgrt_grammars.vocabulary import Vocabulary


class PythonCore:
    """The automaton in Python and numpy: the reference, and the product path where no compiler is found."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits) -> None:
        self.lock: AbstractContextManager[object] = threading.RLock()
        self._machine = Machine(vocabulary, limits)

    def root(self, expression: Expression) -> int:
        """Intern an expression."""
        return self._machine.build(expression).index

    def cursor(self, root: int) -> Cursor:
        """A position at the start of `root`."""
        return Cursor(self._machine, self._node(root))

    def start_operation(self, time_s: float) -> None:
        """Give the next operation a fresh budget."""
        self._machine.meter.restart(time_s)

    def fill(self, cursors: Sequence[CoreCursor], rows: TokenMask, remaining: Sequence[int | None]) -> None:
        """Fill one row of `rows` for each cursor."""
        meter = self._machine.meter
        for cursor, row, budget in zip(cursors, rows, remaining, strict=True):
            meter.restart(self._machine.limits.operation_time_s)
            cursor.mask(row, budget)

    def is_alive(self, root: int) -> bool:
        """Whether some text belongs to `root`."""
        return self._machine.liveness.is_alive(self._node(root))

    def clear_masks(self) -> None:
        """Forget cached masks."""
        self._machine.masks.clear()

    @property
    def num_bytes(self) -> int:
        """Memory held, roughly."""
        return self._machine.num_bytes

    def _node(self, root: int) -> Node:
        return self._machine.arena.nodes[root]
