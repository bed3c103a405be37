"""The seam between matchers and the two implementations of the automaton (Python and native)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sgrt_grammars.expression import Expression
from sgrt_grammars.mask import TokenMask


class CoreCursor(Protocol):
    """A position in an automaton. Symbols are bytes, or `FIRST_SPECIAL + id` of special tokens."""

    def fork(self) -> CoreCursor:
        """An independent copy."""
        ...

    def mask_at_hand(self, row: TokenMask, remaining: int | None) -> bool:
        """Fill `row` if that takes no work; False if it was left alone."""
        ...

    def mask(self, row: TokenMask, remaining: int | None) -> None:
        """Fill `row`."""
        ...

    def node_mask(self) -> tuple[int, TokenMask] | None:
        """(id, row) of a mask that depends on no register."""
        ...

    def advance(self, token: int) -> bool:
        """Take `token` if it is allowed."""
        ...

    def rollback(self, count: int) -> None:
        """Take back `count` tokens."""
        ...

    def witness(self, within: int | None = None) -> tuple[int, ...]:
        """Tokens that complete the text; with `within`, at most so many where any such are known."""
        ...

    def forced(self) -> tuple[int, ...]:
        """Symbols that must follow."""
        ...

    def choices(self) -> list[int]:
        """Symbols that may come next."""
        ...

    @property
    def is_accepting(self) -> bool:
        """Whether the text may end here."""
        ...

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing but the end can follow."""
        ...


class Core(Protocol):
    """An automaton of one vocabulary. Roots are opaque. `lock` is held during each operation."""

    lock: AbstractContextManager[object]

    def root(self, expression: Expression) -> int:
        """Intern an expression; its number. Raises where it denotes nothing."""
        ...

    def cursor(self, root: int) -> CoreCursor:
        """A position at the start of `root`."""
        ...

    def start_operation(self, time_s: float) -> None:
        """Give the next operation a fresh budget."""
        ...

    def fill(self, cursors: Sequence[CoreCursor], rows: TokenMask, remaining: Sequence[int | None]) -> None:
        """Fill one row of `rows` for each cursor."""
        ...

    def is_alive(self, root: int) -> bool:
        """Whether some text belongs to `root`."""
        ...

    def clear_masks(self) -> None:
        """Forget cached masks."""
        ...

    @property
    def num_bytes(self) -> int:
        """Memory held, roughly."""
        ...
