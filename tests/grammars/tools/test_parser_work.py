"""Parsers do work in proportion to the text, counted in calls, characters copied and characters searched."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from sgrt_grammars.tools import scanner
from sgrt_grammars.tools.formats import FORMATS
from sgrt_grammars.tools.parser import OutputParser
from sgrt_grammars.tools.tool import Call, Tool
from sgrt_grammars.tools.writing import written_calls

TOOLS = (Tool(name="book", parameters='{"type": "object", "properties": {"hotel": {"type": "string"}}}'),)
UNITS = ("a", " ", "{", "\\", "\n\n<", "a=", "&amp;", "<tool_call>")
SMALL, TIMES = 160, 6


@dataclass
class Work:
    """What was done so far."""

    calls: int = 0
    characters: int = 0

    def note(self, frame: object, event: str, value: object) -> None:
        """A profiler that counts calls, of functions in C as well."""
        self.calls += event in ("call", "c_call")


class Text(str):
    """Text that says how much of it is copied when it is cut or added to."""

    work: Work

    def _counted(self, text: str) -> Text:
        self.work.characters += len(text)
        return text_of(text, self.work)

    def __getitem__(self, key: object) -> Text:
        return self._counted(super().__getitem__(key))  # type: ignore[index]  # whatever str takes

    def __add__(self, other: str) -> Text:
        return self._counted(super().__add__(other))

    def __radd__(self, other: str) -> Text:
        return self._counted(other + str(self))


def text_of(text: str, work: Work) -> Text:
    """`text`, which counts into `work`."""
    result = Text(text)
    result.work = work
    return result


@dataclass
class Search:
    """A pattern that says how far it looked."""

    pattern: re.Pattern[str]
    work: Work

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        found = self.pattern.search(text, start)
        self.work.characters += (len(text) if found is None else found.end()) - start
        return found


@contextmanager
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Work]:
    """Counts what parsers do while the block runs."""
    work = Work()
    original = scanner._pattern

    def pattern(marks: tuple[str, ...]) -> tuple[Search, int]:
        compiled, longest = original(marks)
        return Search(compiled, work), longest

    with monkeypatch.context() as patch:
        patch.setattr(scanner, "_pattern", pattern)
        for name in ("_SOLID", "_SCALAR_END"):
            patch.setattr(scanner, name, Search(getattr(scanner, name), work))
        yield work


def amount(monkeypatch: pytest.MonkeyPatch, name: str, text: str, *, piece: int, live: bool) -> int:
    """The work of reading `text` in pieces."""
    with counting(monkeypatch) as work:
        parser = OutputParser(FORMATS[name], TOOLS, streams_arguments=live)
        pieces = [text_of(text[at : at + piece], work) for at in range(0, len(text), piece)]
        before = sys.getprofile()
        sys.setprofile(work.note)
        try:
            for item in pieces:
                parser.feed(item)
            parser.finish()
        finally:
            sys.setprofile(before)
    return work.calls + work.characters


def openings(name: str) -> tuple[str, str]:
    """Nothing, and a call up to the middle of its only argument."""
    call = written_calls(FORMATS[name], [Call(name="book", arguments='{"hotel": "MIDDLE"}')])
    return "", call[: call.index("MIDDLE")]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_work_is_linear_in_the_length(monkeypatch: pytest.MonkeyPatch, name: str, live: bool) -> None:
    for opening in openings(name):
        for unit in (*UNITS, opening or "x"):
            for pieces in (
                1,
                SMALL,
            ):  # as many at both sizes: one, or one for every character of the small text
                small = opening + unit * (SMALL // len(unit))
                large = opening + unit * (SMALL * TIMES // len(unit))
                piece = SMALL * TIMES * 2 if pieces == 1 else 1
                few = amount(monkeypatch, name, small, piece=piece, live=live)
                many = amount(monkeypatch, name, large, piece=piece, live=live)
                assert many < 1.5 * TIMES * few + 3000, (opening, unit, pieces, few, many)
