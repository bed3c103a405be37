"""Expressions as programs in postfix order, the form in which the native arena takes them.

An operation is one byte, then its operands (little-endian). Shared subexpressions are written once: `AGAIN` repeats the
result of an earlier operation by its number.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from sgrt_grammars.automaton.build import DeferredTable, children
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


class Operation(IntEnum):
    """The first byte of each operation, in the order of core/program.cc."""

    EMPTY = 0
    LITERAL = 1
    SET = 2
    CONCATENATION = 3
    ALTERNATION = 4
    REPETITION = 5
    INTERSECTION = 6
    COMPLEMENT = 7
    DEFERRED = 8
    SPECIAL = 9
    SCOPE = 10
    DISTINCT_BYTES = 11
    DISTINCT_JSON = 12
    AGAIN = 13


_COUNTED = struct.Struct("<BI")
_SIGNED = struct.Struct("<Bi")
_BOUNDS = struct.Struct("<Bqq")
_MAX_BOUND = (1 << 62) - 1


def program_of(expression: Expression, deferred: DeferredTable) -> bytes:
    """The program of `expression`; deferred expressions are numbered by `deferred`."""
    out = bytearray()
    numbers: dict[int, int] = {}
    stack: list[Expression | None] = [expression]
    owners: list[Expression] = []
    while stack:
        current = stack.pop()
        if current is None:
            owner = owners.pop()
            out += _compound(owner)
            numbers[id(owner)] = len(numbers)
            continue
        number = numbers.get(id(current))
        if number is not None:
            out += _COUNTED.pack(Operation.AGAIN, number)
            continue
        parts = children(current)
        if parts:
            owners.append(current)
            stack.append(None)
            stack.extend(reversed(parts))
        else:
            out += _leaf(current, deferred)
            numbers[id(current)] = len(numbers)
    return bytes(out)


def _leaf(expression: Expression, deferred: DeferredTable) -> bytes:
    match expression:
        case Literal(data):
            return _COUNTED.pack(Operation.LITERAL, len(data)) + data if data else bytes([Operation.EMPTY])
        case ByteSet(members):
            if not 0 <= members < 1 << 256:
                raise InvalidConstraint("a byte set has bits beyond 255")
            return bytes([Operation.SET]) + members.to_bytes(32, "little")
        case Deferred():
            return _SIGNED.pack(Operation.DEFERRED, deferred.number(expression))
        case SpecialToken(token_id):
            return _SIGNED.pack(Operation.SPECIAL, token_id)
        case Concatenation():
            return bytes([Operation.EMPTY])
        case Alternation() | Intersection():
            kind = Operation.ALTERNATION if isinstance(expression, Alternation) else Operation.INTERSECTION
            return _COUNTED.pack(kind, 0)
        case _:
            raise InvalidConstraint(f"unknown expression {expression!r}")


def _compound(expression: Expression) -> bytes:
    match expression:
        case Concatenation(parts):
            return _COUNTED.pack(Operation.CONCATENATION, len(parts))
        case Alternation(options):
            return _COUNTED.pack(Operation.ALTERNATION, len(options))
        case Intersection(parts):
            return _COUNTED.pack(Operation.INTERSECTION, len(parts))
        case Repetition(_, minimum, maximum):
            high = -1 if maximum is None else min(maximum, _MAX_BOUND)
            if minimum < 0 or (maximum is not None and maximum < minimum):
                raise InvalidConstraint(f"a repetition of {minimum} to {maximum} times is not possible")
            return _BOUNDS.pack(Operation.REPETITION, min(minimum, _MAX_BOUND), high)
        case Complement():
            return bytes([Operation.COMPLEMENT])
        case Scope():
            return bytes([Operation.SCOPE])
        case Distinct(_, canonical):
            is_bytes = canonical is Canonical.BYTES
            return bytes([Operation.DISTINCT_BYTES if is_bytes else Operation.DISTINCT_JSON])
        case _:
            raise InvalidConstraint(f"unknown expression {expression!r}")
