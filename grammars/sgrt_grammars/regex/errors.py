"""What a pattern's parser reports; callers turn it into errors that say where the pattern stood."""

from __future__ import annotations


class PatternError(ValueError):
    """The pattern is malformed at `position` (an index of characters)."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} at position {position}")
        self.position = position


class PatternRefused(ValueError):
    """The pattern is well-formed, but uses what no regular language can say, or what is not known here."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class PatternTooDeep(ValueError):
    """The pattern nests deeper, or multiplies out further, than the limit."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit
