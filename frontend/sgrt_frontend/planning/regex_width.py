"""How long a match of a regular expression can be, for expressions of the plain kind."""

from __future__ import annotations

import re

_QUANTIFIER = re.compile(r"\*|\+|\?|\{(\d*)(?:(,)(\d*))?\}")
# Escapes that match one ASCII character; \w, \s, \d match others too, of up to four bytes.
_WIDE_ESCAPES = frozenset("wWsSdD")
_UNKNOWN_ESCAPES = frozenset("123456789bBAZ")


def longest_match_bytes(pattern: str) -> int | None:
    """The most bytes a match can have; None when there is no bound or the pattern has parts not known here."""
    reader = _Reader(pattern)
    width = reader.alternatives()
    return width if width is not None and reader.is_at_end and not reader.is_unknown else None


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self.is_unknown = False

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._pattern)

    def alternatives(self) -> int | None:
        widths = [self._sequence()]
        while self._take("|"):
            widths.append(self._sequence())
        return None if None in widths else max(width for width in widths if width is not None)

    def _sequence(self) -> int | None:
        total: int | None = 0
        while not self.is_at_end and self._pattern[self._position] not in "|)":
            width = self._quantified(self._atom())
            total = None if total is None or width is None else total + width
        return total

    def _quantified(self, width: int | None) -> int | None:
        found = _QUANTIFIER.match(self._pattern, self._position)
        if found is None:
            return width
        self._position = found.end()
        if self._take("?") or self._take("+"):  # lazy and possessive forms match the same lengths
            pass
        if found[0] == "?":
            return width
        if found[0] in "*+":
            return 0 if width == 0 else None
        most = found[3] if found[2] else found[1]
        return None if not most or width is None else width * int(most)

    def _atom(self) -> int | None:
        character = self._next()
        if character == "(":
            return self._group()
        if character == "[":
            return self._character_class()
        if character == "\\":
            return self._escape()
        if character == ".":
            return 4
        return 0 if character in "^$" else len(character.encode("utf-8", "surrogatepass"))

    def _group(self) -> int | None:
        if self._take("?:"):
            pass
        elif self._take("?"):
            self.is_unknown = True  # lookarounds, flags, names
        width = self.alternatives()
        self._take(")")
        return width

    def _character_class(self) -> int:
        is_negated = self._take("^")
        start = self._position
        self._take("]")
        while not self.is_at_end and self._pattern[self._position] != "]":
            if self._next() == "\\":
                self._next()
        inside = self._pattern[start : self._position]
        self._take("]")
        is_wide = (
            is_negated
            or not inside.isascii()
            or any(f"\\{one}" in inside for one in _WIDE_ESCAPES | {"u", "x"})
        )
        return 4 if is_wide else 1

    def _escape(self) -> int:
        character = self._next()
        if character in _UNKNOWN_ESCAPES:
            self.is_unknown = True
        if character in "xuU":
            self._position += {"x": 2, "u": 4, "U": 8}[character]
            return 4
        return 4 if character in _WIDE_ESCAPES else 1

    def _next(self) -> str:
        if self.is_at_end:
            self.is_unknown = True
            return ""
        self._position += 1
        return self._pattern[self._position - 1]

    def _take(self, text: str) -> bool:
        if self._pattern.startswith(text, self._position):
            self._position += len(text)
            return True
        return False
