"""Reading text that arrives in pieces, in time linear in its length.

Reading functions are coroutines: they yield when they need more text and go on where they stopped. What they
have read they hand over at once, so the buffer holds only what cannot be judged yet (the start of a mark).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache

Emit = Callable[[str], None]
Step = Generator[None, None, bool]
Find = Generator[None, None, str | None]

_SPACE = " \t\r\n"
_SOLID = re.compile(r"[^ \t\r\n]")
_SCALAR_END = re.compile(r"[\s,\]}<\[(]")
_JSON_QUOTES = ('"',)
_WORD_SLACK = 64


def ignore(text: str) -> None:
    """An Emit that forgets."""


class Scanner:
    """A position in text that grows. `feed` and `close` are called from outside the coroutines."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._is_closed = False
        self._record: list[str] | None = None

    def feed(self, text: str) -> None:
        """More text has come."""
        self._text = self._text[self._at :] + text
        self._at = 0

    def close(self) -> None:
        """No more text will come."""
        self._is_closed = True

    def record(self) -> list[str]:
        """Keep a copy of everything that is read from here on, until the next call."""
        self._record = []
        return self._record

    def is_at_end(self) -> Step:
        """Whether everything is read and nothing more will come."""
        while self._at >= len(self._text):
            if self._is_closed:
                return True
            yield
        return False

    def accept(self, options: Sequence[str]) -> Find:
        """Read the longest of `options` that stands here; None (and nothing read) if none does."""
        found = yield from self.stands(options)
        if found is not None:
            self._read(self._at + len(found))
        return found

    def stands(self, options: Sequence[str]) -> Find:
        """The longest of `options` that stands here, if any does; nothing is read."""
        longest = max(map(len, options), default=0)
        while True:
            rest = self._text[self._at : self._at + longest]
            may_grow = any(len(rest) < len(option) and option.startswith(rest) for option in options)
            if not may_grow or self._is_closed:
                return max((option for option in options if rest.startswith(option)), key=len, default=None)
            yield

    def spaces(self, emit: Emit = ignore) -> Step:
        """Read white space; whether anything follows it."""
        while True:
            found = _SOLID.search(self._text, self._at)
            end = len(self._text) if found is None else found.start()
            if end > self._at:
                emit(self._read(end))
            if found is not None:
                return True
            if self._is_closed:
                return False
            yield

    def until(self, marks: Sequence[str], emit: Emit, *, trims: bool = False) -> Find:
        """Hand over text up to the first of `marks`, read the mark and return it; None at the end.

        No mark is the beginning of another. With `trims`, white space just before a mark is dropped.
        """
        pattern, longest = _pattern(tuple(marks))
        trimmed = _Trimmed(emit)
        give = trimmed.give if trims else emit
        while True:
            found = pattern.search(self._text, self._at)
            if found is not None:
                if found.start() > self._at:
                    give(self._read(found.start()))
                return self._read(found.end())
            keep = 0 if self._is_closed else self._undecided(marks, longest)
            if len(self._text) - keep > self._at:
                give(self._read(len(self._text) - keep))
            if self._is_closed:
                trimmed.flush()
                return None
            yield

    def word(self, ends: Sequence[str], *, limit: int = 256) -> Find:
        """Read up to the first of `ends`, which stays unread; None if none comes within `limit` characters."""
        pattern, _ = _pattern(tuple(ends))
        while True:
            found = pattern.search(self._text, self._at)
            if found is not None:
                return self._read(found.start()) if found.start() - self._at <= limit else None
            if self._is_closed or len(self._text) - self._at > limit + _WORD_SLACK:
                return None
            yield

    def json_value(self, emit: Emit) -> Step:
        """Hand over one JSON value; whether its brackets and quotes close. Syntax inside is not checked."""
        if not (yield from self.spaces()):
            return False
        first = self._text[self._at]
        if first == '"':
            emit(self._read(self._at + 1))
            return (yield from self._string('"', emit))
        if first in "{[":
            return (yield from self.brackets(emit))
        return (yield from self._scalar(emit))

    def brackets(self, emit: Emit, quotes: tuple[str, ...] = _JSON_QUOTES, *, escapes: bool = True) -> Step:
        """Hand over text from an opening bracket to the one that closes it; whether it came.

        Brackets inside `quotes` do not count. `escapes`: a backslash keeps a quote from closing.
        """
        depth = 0
        marks = ("{", "}", "[", "]", "(", ")", *quotes)
        while True:
            mark = yield from self.until(marks, emit)
            if mark is None:
                return False
            emit(mark)
            if mark in quotes:
                if not (yield from self._string(mark, emit, escapes=escapes)):
                    return False
                continue
            depth += 1 if mark in "{[(" else -1
            if depth <= 0:
                return True

    def _string(self, quote: str, emit: Emit, *, escapes: bool = True) -> Step:
        marks = (quote, "\\") if escapes else (quote,)
        while True:
            mark = yield from self.until(marks, emit)
            if mark is None:
                return False
            emit(mark)
            if mark == quote:
                return True
            if (yield from self.is_at_end()):
                return False
            emit(self._read(self._at + 1))  # what the backslash escapes

    def _scalar(self, emit: Emit) -> Step:
        has_text = False
        while True:
            found = _SCALAR_END.search(self._text, self._at)
            end = len(self._text) if found is None else found.start()
            if end > self._at:
                has_text = True
                emit(self._read(end))
            if found is not None or self._is_closed:
                return has_text
            yield

    def _read(self, end: int) -> str:
        text, self._at = self._text[self._at : end], end
        if self._record is not None:
            self._record.append(text)
        return text

    def _undecided(self, marks: Sequence[str], longest: int) -> int:
        """How many characters at the end may be the start of a mark."""
        for size in range(min(longest - 1, len(self._text) - self._at), 0, -1):
            tail = self._text[len(self._text) - size :]
            if any(mark.startswith(tail) for mark in marks):
                return size
        return 0


class _Trimmed:
    """Passes text on but holds white space back until something solid follows."""

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._spaces: list[str] = []

    def give(self, text: str) -> None:
        """Take `text`."""
        solid = text.rstrip(_SPACE)
        if solid:
            self._emit("".join([*self._spaces, solid]))
            self._spaces.clear()
        if len(solid) < len(text):
            self._spaces.append(text[len(solid) :])

    def flush(self) -> None:
        """Pass on what is held."""
        if self._spaces:
            self._emit("".join(self._spaces))


@lru_cache(maxsize=256)
def _pattern(marks: tuple[str, ...]) -> tuple[re.Pattern[str], int]:
    """Literals joined by `|` are matched without backtracking into them."""
    ordered = sorted(marks, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered))), len(ordered[0])
