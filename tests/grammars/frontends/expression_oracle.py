"""Decides whether a text belongs to an `Expression`, one byte after the other: the oracle of these tests.

It shares no code with the automaton. A configuration is a stack of things still to match (a linked list, so
that recursion in the expression is not recursion in Python) and the captured texts of the open scopes. Regular
parts under an intersection or a complement are sets of configurations of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from sgrt_grammars.expression import (
    EMPTY_TEXT,
    Alternation,
    ByteSet,
    Canonical,
    Complement,
    Concatenation,
    Deferred,
    Distinct,
    Expression,
    Intersection,
    Literal,
    Members,
    Repetition,
    Scope,
    SpecialToken,
)


@dataclass(frozen=True, slots=True)
class _Text:
    """The rest of a literal."""

    data: bytes


@dataclass(frozen=True, slots=True)
class _Track:
    """A regular part in progress: (is it negated, its configurations) for every part."""

    parts: tuple[tuple[bool, frozenset[_Cell | None]], ...]


@dataclass(frozen=True, slots=True)
class _Capture:
    """The end of a `Distinct` that began at `start`."""

    start: int
    canonical: Canonical


@dataclass(frozen=True, slots=True)
class _Leave:
    """The end of a `Scope`."""


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is left of a repetition."""

    body: int
    minimum: int
    maximum: int | None


_Item = Expression | _Text | _Track | _Capture | _Leave | _Rest


@dataclass(slots=True, eq=False)
class _Cell:
    item: _Item
    rest: _Cell | None


_Registers = tuple[frozenset[object], ...]
_Configuration = tuple[_Cell | None, _Registers]


@dataclass(slots=True)
class Oracle:
    """Membership in one expression. `Deferred` parts are built once per key."""

    expression: Expression
    _built: dict[object, Expression] = field(default_factory=dict)
    _cells: dict[object, _Cell] = field(default_factory=dict)
    _bodies: dict[int, Expression] = field(default_factory=dict)

    def accepts(self, text: bytes) -> bool:
        """Whether the whole text belongs."""
        return self.prefix_length(text) > len(text)

    def prefix_length(self, text: bytes) -> int:
        """How many bytes can be read before none fits; one more than all of them when the text belongs."""
        current = self._closed([(self._cell(self.expression, None), ())], text, 0)
        for place, byte in enumerate(text):
            moved = [(self._moved(cell, byte), registers) for cell, registers in current if cell is not None]
            current = self._closed([one for one in moved if one[0] is not _DEAD], text, place + 1)
            if not current:
                return place
        return len(text) + any(cell is None for cell, _ in current)

    def _cell(self, item: _Item, rest: _Cell | None) -> _Cell:
        key = (item if isinstance(item, _Text | _Track | _Capture | _Leave | _Rest) else id(item), id(rest))
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _Cell(item, rest)
        return cell

    def _moved(self, cell: _Cell, byte: int) -> _Cell | None:
        """The stack after one byte; `_DEAD` when it does not fit."""
        match cell.item:
            case _Text(data):
                if data[0] != byte:
                    return _DEAD
                return self._cell(_Text(data[1:]), cell.rest) if len(data) > 1 else cell.rest
            case ByteSet(members):
                return cell.rest if members >> byte & 1 else _DEAD
            case _Track(parts):
                moved = tuple((negated, self._advanced(states, byte)) for negated, states in parts)
                if any(not states and not negated for negated, states in moved):
                    return _DEAD
                return self._cell(_Track(moved), cell.rest)
        return _DEAD

    def _advanced(self, states: frozenset[_Cell | None], byte: int) -> frozenset[_Cell | None]:
        moved = [self._moved(cell, byte) for cell in states if cell is not None]
        return self._regular([cell for cell in moved if cell is not _DEAD])

    def _regular(self, cells: Iterable[_Cell | None]) -> frozenset[_Cell | None]:
        return frozenset(cell for cell, _ in self._closed([(cell, ()) for cell in cells], b"", 0))

    def _closed(self, start: list[_Configuration], text: bytes, place: int) -> set[_Configuration]:
        """Everything reachable without reading a byte, kept where a byte (or the end) comes next."""
        seen: set[_Configuration] = set()
        waiting: set[_Configuration] = set()
        stack = list(start)
        while stack:
            configuration = stack.pop()
            if configuration in seen:
                continue
            seen.add(configuration)
            cell, registers = configuration
            if cell is None:
                waiting.add(configuration)
                continue
            if isinstance(cell.item, ByteSet | SpecialToken) or (
                isinstance(cell.item, _Text) and cell.item.data
            ):
                waiting.add(configuration)
                continue
            if isinstance(cell.item, _Track):
                waiting.add(configuration)
            stack += self._opened(cell, registers, text, place)
        return waiting

    def _opened(self, cell: _Cell, registers: _Registers, text: bytes, place: int) -> list[_Configuration]:
        if isinstance(cell.item, Scope | Distinct | _Leave | _Capture):
            return self._registered(cell, registers, text, place)
        return [(opened, registers) for opened in self._plainly_opened(cell)]

    def _plainly_opened(self, cell: _Cell) -> list[_Cell | None]:
        """The stacks that `cell` stands for, one level down."""
        item, rest = cell.item, cell.rest
        match item:
            case Literal(data):
                return [self._cell(_Text(data), rest) if data else rest]
            case Concatenation(parts):
                for part in reversed(parts):
                    rest = self._cell(part, rest)
                return [rest]
            case Alternation(options):
                return [self._cell(option, rest) for option in options]
            case Repetition(body, minimum, maximum):
                self._bodies[id(body)] = body
                return self._repeated(_Rest(id(body), minimum, maximum), rest)
            case _Rest():
                return self._repeated(item, rest)
            case Deferred() | Members():
                return [self._cell(self._unfolded(item), rest)]
            case _:
                return self._regularly_opened(item, rest)

    def _unfolded(self, item: Deferred | Members) -> Expression:
        key = (type(item), item.key)
        if key not in self._built:
            self._built[key] = item.build() if isinstance(item, Deferred) else _rest_of_members(item, 0)
        return self._built[key]

    def _regularly_opened(self, item: _Item, rest: _Cell | None) -> list[_Cell | None]:
        match item:
            case Intersection(parts):
                tracks = tuple((False, self._regular([self._cell(part, None)])) for part in parts)
                return [self._cell(_Track(tracks), rest)]
            case Complement(body):
                return [self._cell(_Track(((True, self._regular([self._cell(body, None)])),)), rest)]
            case _Track(states_of):
                is_done = all((None in states) != negated for negated, states in states_of)
                return [rest] if is_done else []
            case _:
                return []

    def _registered(
        self, cell: _Cell, registers: _Registers, text: bytes, place: int
    ) -> list[_Configuration]:
        item, rest = cell.item, cell.rest
        match item:
            case Scope(body):
                return [(self._cell(body, self._cell(_Leave(), rest)), (*registers, frozenset()))]
            case Distinct(body, canonical):
                return [(self._cell(body, self._cell(_Capture(place, canonical), rest)), registers)]
            case _Capture(start, canonical):
                value = _canonical(text[start:place], canonical)
                if value in registers[-1]:
                    return []
                return [(rest, (*registers[:-1], registers[-1] | {value}))]
            case _:
                return [(rest, registers[:-1])]

    def _repeated(self, item: _Rest, rest: _Cell | None) -> list[_Cell | None]:
        found: list[_Cell | None] = [rest] if item.minimum == 0 else []
        if item.maximum is None or item.maximum > 0:
            left = None if item.maximum is None else item.maximum - 1
            after = self._cell(_Rest(item.body, max(0, item.minimum - 1), left), rest)
            found.append(self._cell(self._bodies[item.body], after))
        return found


_DEAD = _Cell(_Leave(), None)


def _rest_of_members(of: Members, place: int) -> Expression:
    """What may come at a place: a member that passes over no required one, what is free, or the end."""
    separator, end = (EMPTY_TEXT, EMPTY_TEXT) if place == 0 else (of.separator, of.end)
    found: list[Expression] = []
    for index in range(place, len(of.names)):
        after = Deferred((of.key, "members", index), partial(_rest_of_members, of, index + 1))
        name = Concatenation((separator, Literal(of.names[index]), of.between))
        found.append(Concatenation((name, of.values[index], after)))
        if of.required[index]:
            return Alternation(tuple(found))
    return Alternation((*found, Concatenation((separator, of.free)), end))


def _canonical(text: bytes, canonical: Canonical) -> object:
    return text if canonical is Canonical.BYTES else _frozen(json.loads(text))


def _frozen(value: object) -> object:
    """A hashable form in which JSON values are equal exactly when JSON Schema says so."""
    if isinstance(value, dict):
        return ("object", frozenset((key, _frozen(one)) for key, one in value.items()))
    if isinstance(value, list):
        return ("array", tuple(_frozen(one) for one in value))
    return ("boolean", value) if isinstance(value, bool) else ("scalar", value)


def accepts(expression: Expression, text: str | bytes) -> bool:
    """Whether `text` belongs to the language of `expression`."""
    return Oracle(expression).accepts(text.encode() if isinstance(text, str) else text)
