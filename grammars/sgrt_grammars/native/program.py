"""Expressions as programs in postfix order, the form in which the native arena takes them.

An operation is one byte, then its operands (little-endian). What was written before is not written again:
`AGAIN` repeats the result of an earlier operation of the same program by its number, `NODE` names a node that the arena
made of the same expression object earlier (front ends share many: character classes, string bodies).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from sgrt_grammars.automaton.deferred import DeferredTable
from sgrt_grammars.errors import InvalidConstraint
from sgrt_grammars.expression import (
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
    SchemaValue,
    Scope,
    SpecialToken,
    Texts,
)
from sgrt_grammars.native.schemas import Schemas

# The operations, in the order of core/program.cc.
_EMPTY = b"\x00"
_LITERAL, _SET, _CONCATENATION, _ALTERNATION, _REPETITION, _INTERSECTION = 1, 2, 3, 4, 5, 6
_COMPLEMENT, _SCOPE = b"\x07", b"\x0a"
_DEFERRED, _SPECIAL = 8, 9
_DISTINCT = {Canonical.BYTES: b"\x0b", Canonical.JSON: b"\x0c"}
_AGAIN, _NODE, _DEFERRED_SATISFIABLE, _DEFERRED_SHORT, _DEFERRED_BOTH, _MEMBERS, _TEXTS, _VALUE = (
    13,
    14,
    15,
    16,
    17,
    18,
    19,
    20,
)

_COUNTED = struct.Struct("<BI").pack
_SIGNED = struct.Struct("<Bi").pack
_BOUNDS = struct.Struct("<Bqq").pack
_MEMBER_COUNT = struct.Struct("<BIi").pack
_LENGTH = struct.Struct("<I").pack
_PLACE = struct.Struct("<BiI").pack
_MAX_BOUND = (1 << 62) - 1


class Programs:
    """Writes programs, and remembers which expression objects became which nodes."""

    def __init__(self, deferred: DeferredTable, schemas: Schemas) -> None:
        self.deferred = deferred
        self.schemas = schemas
        # The expression is kept beside its node: its identity must not be taken by another object.
        self._nodes: dict[int, tuple[Expression, int]] = {}
        self._order: list[Expression] = []

    def write(self, expression: Expression) -> bytes:
        """The program of `expression`."""
        out: list[bytes] = []
        known = self._nodes
        numbers: dict[int, int] = {}
        order: list[Expression] = []
        stack: list[Expression | _Operation] = [expression]
        while stack:
            current = stack.pop()
            if isinstance(current, _Operation):
                out.append(current.code)
                numbers[id(current.expression)] = len(order)
                order.append(current.expression)
                continue
            identity = id(current)
            if identity in known:
                out.append(_SIGNED(_NODE, known[identity][1]))
            elif identity in numbers:
                out.append(_COUNTED(_AGAIN, numbers[identity]))
            else:
                code, parts = _WRITERS[type(current)](current, self)
                if parts:
                    stack.append(_Operation(code, current))
                    stack.extend(reversed(parts))
                else:
                    out.append(code)
                    numbers[identity] = len(order)
                    order.append(current)
        self._order = order
        return b"".join(out)

    def note(self, nodes: Sequence[int]) -> None:
        """The nodes that the operations of the last program became (`NODE` and `AGAIN` aside), in order."""
        for expression, node in zip(self._order, nodes, strict=True):
            kind = type(expression)
            if kind not in _SMALL:
                self._nodes[id(expression)] = expression, node
        self._order = []

    @property
    def num_noted(self) -> int:
        """Operations of the last program."""
        return len(self._order)


class _Operation:
    """An operation that waits for its operands to be written."""

    __slots__ = ("code", "expression")

    def __init__(self, code: bytes, expression: Expression) -> None:
        self.code = code
        self.expression = expression


_SMALL = frozenset({Literal, Deferred, SchemaValue})
"""Written as fast as they are remembered."""

_Written = tuple[bytes, tuple[Expression, ...]]
"""An operation without its operands, and the operands."""


def _literal(expression: Literal, _: Programs) -> _Written:
    data = expression.data
    return _COUNTED(_LITERAL, len(data)) + data if data else _EMPTY, ()


def _texts(expression: Texts, _: Programs) -> _Written:
    code = [_COUNTED(_TEXTS, len(expression.options))]
    for one in expression.options:
        code += (_LENGTH(len(one)), one)
    return b"".join(code), ()


def _byte_set(expression: ByteSet, _: Programs) -> _Written:
    if not 0 <= expression.members < 1 << 256:
        raise InvalidConstraint("a byte set has bits beyond 255")
    return bytes([_SET]) + expression.members.to_bytes(32, "little"), ()


def _concatenation(expression: Concatenation, _: Programs) -> _Written:
    return _COUNTED(_CONCATENATION, len(expression.parts)), expression.parts


def _alternation(expression: Alternation, _: Programs) -> _Written:
    return _COUNTED(_ALTERNATION, len(expression.options)), expression.options


def _intersection(expression: Intersection, _: Programs) -> _Written:
    return _COUNTED(_INTERSECTION, len(expression.parts)), expression.parts


def _repetition(expression: Repetition, _: Programs) -> _Written:
    low, high = expression.minimum, expression.maximum
    if low < 0 or (high is not None and high < low):
        raise InvalidConstraint(f"a repetition of {low} to {high} times is not possible")
    bounds = min(low, _MAX_BOUND), -1 if high is None else min(high, _MAX_BOUND)
    return _BOUNDS(_REPETITION, *bounds), (expression.body,)


def _deferred(expression: Deferred, programs: Programs) -> _Written:
    if expression.build_short is None:
        kind = _DEFERRED_SATISFIABLE if expression.is_satisfiable else _DEFERRED
    else:
        kind = _DEFERRED_BOTH if expression.is_satisfiable else _DEFERRED_SHORT
    return _SIGNED(kind, programs.deferred.number(expression)), ()


def _schema_value(expression: SchemaValue, programs: Programs) -> _Written:
    number = programs.schemas.number(expression.source)
    if number is None:
        return _deferred(expression, programs)
    pointer = expression.pointer.encode()
    return _PLACE(_VALUE, number, len(pointer)) + pointer, ()


def _members(expression: Members, _: Programs) -> _Written:
    code = [_MEMBER_COUNT(_MEMBERS, len(expression.names), expression.sound_from), bytes(expression.required)]
    for name in expression.names:
        code += (_LENGTH(len(name)), name)
    operands = (*expression.values, expression.between, expression.separator, expression.end, expression.free)
    return b"".join(code), operands


_WRITERS: dict[type, Callable[..., _Written]] = {
    Literal: _literal,
    Texts: _texts,
    ByteSet: _byte_set,
    Concatenation: _concatenation,
    Alternation: _alternation,
    Repetition: _repetition,
    Intersection: _intersection,
    Complement: lambda expression, _: (_COMPLEMENT, (expression.body,)),
    Deferred: _deferred,
    SchemaValue: _schema_value,
    Members: _members,
    SpecialToken: lambda expression, _: (_SIGNED(_SPECIAL, expression.token_id), ()),
    Scope: lambda expression, _: (_SCOPE, (expression.body,)),
    Distinct: lambda expression, _: (_DISTINCT[expression.canonical], (expression.body,)),
}
