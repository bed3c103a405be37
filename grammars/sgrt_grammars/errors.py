"""Errors of the grammar decoder: one tree, each saying what, where and what to do.

GrammarError
├── InvalidConstraint       the constraint itself is malformed (bad JSON Schema, bad regex, bad grammar)
├── UnsupportedConstraint   well-formed, but a part of it cannot be enforced exactly
├── UnsatisfiableConstraint no text of this vocabulary can satisfy it
├── BudgetTooSmall          max_tokens is below the shortest text known to satisfy it
└── CompileLimitExceeded    a time, state, memory or depth budget of compilation ran out
"""

from __future__ import annotations


class GrammarError(ValueError):
    """A constraint cannot be used as asked."""


class InvalidConstraint(GrammarError):
    """The constraint is malformed; `pointer` says where (a JSON pointer or `line:column`)."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(f"{message} (at {pointer or '/'})")
        self.pointer = pointer


class UnsupportedConstraint(GrammarError):
    """A keyword or construct cannot be enforced exactly, so it is refused rather than ignored."""

    def __init__(self, message: str, *, pointer: str = "", keyword: str = "", hint: str = "") -> None:
        advice = f"; {hint}" if hint else ""
        super().__init__(f"{keyword or 'constraint'} at {pointer or '/'}: {message}{advice}")
        self.pointer = pointer
        self.keyword = keyword
        self.hint = hint


class UnsatisfiableConstraint(GrammarError):
    """No text can satisfy the constraint (or none that this vocabulary can spell)."""

    def __init__(self, message: str, *, pointer: str = "") -> None:
        super().__init__(message)
        self.pointer = pointer


class BudgetTooSmall(GrammarError):
    """`max_tokens` is below what the constraint needs; `needed` is a budget that suffices."""

    def __init__(self, *, needed: int, given: int) -> None:
        super().__init__(
            f"the constraint needs up to {needed} tokens to close, but only {given} are allowed; "
            f"raise max_tokens to at least {needed}"
        )
        self.needed = needed
        self.given = given


class CompileLimitExceeded(GrammarError):
    """Compilation or a mask ran out of its budget; `limit` names which."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit
