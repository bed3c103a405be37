"""Expressions as programs in postfix order, the form in which the native arena takes them.

An operation is one byte, then its operands (little-endian). What was written before is not written again:
`AGAIN` repeats the result of an earlier operation of the same program by its number, `NODE` names a node that the arena
made of the same expression object earlier (front ends share many: character classes, string bodies).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from sgrt_grammars.automaton.build import DeferredTable
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
    Repetition,
    Scope,
    SpecialToken,
)

# The operations, in the order of core/program.cc.
_EMPTY = b"\x00"
_LITERAL, _SET, _CONCATENATION, _ALTERNATION, _REPETITION, _INTERSECTION = 1, 2, 3, 4, 5, 6
_COMPLEMENT, _SCOPE = b"\x07", b"\x0a"
_DEFERRED, _SPECIAL = 8, 9
_DISTINCT = {Canonical.BYTES: b"\x0b", Canonical.JSON: b"\x0c"}
_AGAIN, _NODE, _DEFERRED_SATISFIABLE, _DEFERRED_SHORT, _DEFERRED_BOTH = 13, 14, 15, 16, 17

_COUNTED = struct.Struct("<BI").pack
_SIGNED = struct.Struct("<Bi").pack
_BOUNDS = struct.Struct("<Bqq").pack
_MAX_BOUND = (1 << 62) - 1


class Programs:
    """Writes programs, and remembers which expression objects became which nodes."""

    def __init__(self, deferred: DeferredTable) -> None:
        self._deferred = deferred
        # The expression is kept beside its node: its identity must not be taken by another object.
        self._nodes: dict[int, tuple[Expression, int]] = {}
        self._order: list[Expression] = []

    def write(self, expression: Expression) -> bytes:
        """The program of `expression`."""
        out: list[bytes] = []
        emit = out.append
        known = self._nodes
        numbers: dict[int, int] = {}
        order: list[Expression] = []
        stack: list[tuple[Expression, bool]] = [(expression, False)]
        while stack:
            current, is_ready = stack.pop()
            identity = id(current)
            write = _COMPOUND.get(type(current))
            if is_ready and write is not None:
                emit(write(current))
            elif identity in known:
                emit(_SIGNED(_NODE, known[identity][1]))
                continue
            elif identity in numbers:
                emit(_COUNTED(_AGAIN, numbers[identity]))
                continue
            elif write is not None:
                parts = _parts(current)
                stack.append((current, True))
                stack.extend([(part, False) for part in reversed(parts)])
                continue
            else:
                emit(self._leaf(current))
            numbers[identity] = len(order)
            order.append(current)
        self._order = order
        return b"".join(out)

    def note(self, nodes: Sequence[int]) -> None:
        """The nodes that the operations of the last program became (`NODE` and `AGAIN` aside), in order."""
        for expression, node in zip(self._order, nodes, strict=True):
            kind = type(expression)
            if kind is not Literal and kind is not Deferred:
                self._nodes[id(expression)] = expression, node
        self._order = []

    @property
    def num_noted(self) -> int:
        """Operations of the last program."""
        return len(self._order)

    def _leaf(self, expression: Expression) -> bytes:
        match expression:
            case Literal(data):
                return _COUNTED(_LITERAL, len(data)) + data if data else _EMPTY
            case ByteSet(members):
                if not 0 <= members < 1 << 256:
                    raise InvalidConstraint("a byte set has bits beyond 255")
                return bytes([_SET]) + members.to_bytes(32, "little")
            case Deferred():
                return _SIGNED(_kind(expression), self._deferred.number(expression))
            case SpecialToken(token_id):
                return _SIGNED(_SPECIAL, token_id)
            case _:
                raise InvalidConstraint(f"unknown expression {expression!r}")


def _kind(expression: Deferred) -> int:
    if expression.build_short is None:
        return _DEFERRED_SATISFIABLE if expression.is_satisfiable else _DEFERRED
    return _DEFERRED_BOTH if expression.is_satisfiable else _DEFERRED_SHORT


def _parts(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Concatenation(parts) | Intersection(parts):
            return parts
        case Alternation(options):
            return options
        case Repetition(body, _, _) | Complement(body) | Scope(body) | Distinct(body, _):
            return (body,)
        case _:
            return ()


def _repetition(expression: Repetition) -> bytes:
    low, high = expression.minimum, expression.maximum
    if low < 0 or (high is not None and high < low):
        raise InvalidConstraint(f"a repetition of {low} to {high} times is not possible")
    return _BOUNDS(_REPETITION, min(low, _MAX_BOUND), -1 if high is None else min(high, _MAX_BOUND))


_COMPOUND: dict[type, Callable[..., bytes]] = {
    Concatenation: lambda expression: _COUNTED(_CONCATENATION, len(expression.parts)),
    Alternation: lambda expression: _COUNTED(_ALTERNATION, len(expression.options)),
    Intersection: lambda expression: _COUNTED(_INTERSECTION, len(expression.parts)),
    Repetition: _repetition,
    Complement: lambda _: _COMPLEMENT,
    Scope: lambda _: _SCOPE,
    Distinct: lambda expression: _DISTINCT[expression.canonical],
}
