"""The nodes of the automaton: expressions interned bottom-up, so equal ones are one object.

A state of a matcher *is* a node: the language of what may still follow. `Concatenation` is nested
to the right, so its tail is the stack. Facts about a node are computed on demand and kept on it.
"""

from __future__ import annotations

from enum import IntEnum


class Kind(IntEnum):
    """What a node denotes. The comments name the fields that matter."""

    NOTHING = 0  # the empty language
    EMPTY = 1  # the empty text
    LITERAL = 2  # data: at least one byte
    SET = 3  # members: bit b says whether byte b belongs; at least two bytes
    CONCATENATION = 4  # parts: (head, tail); only in front of a tail that is not regular may the head be one
    ALTERNATION = 5  # parts: at least two, ascending by index
    REPETITION = 6  # parts: (body,); low, high (UNBOUNDED)
    INTERSECTION = 7  # parts: at least two, ascending by index; regular
    COMPLEMENT = 8  # parts: (body,); regular
    DEFERRED = 9  # low: index of the deferred expression
    SPECIAL = 10  # low: token id
    SCOPE = 11  # parts: (expansion,) between ENTER and EXIT
    DISTINCT = 12  # parts: (expansion, body) between BEGIN and END
    ACTION = 13  # low: an Action; a mark of no width
    GUARDED = 14  # parts: (node,); actions: to be done before going on in node


class Action(IntEnum):
    """Register operations, done at a position of the text."""

    ENTER = 0  # open a scope
    EXIT = 1  # close the innermost scope
    BEGIN = 2  # start capturing
    END_BYTES = 3  # stop; the bytes captured must be new in the scope; record them
    END_JSON = 4  # the same, compared as JSON values


UNBOUNDED = 1 << 62
END_OF_TEXT = 256
"""The symbol after the last byte; special token `t` is symbol `FIRST_SPECIAL + t`."""
FIRST_SPECIAL = 257
ALL_BYTES = (1 << 256) - 1

Actions = tuple[Action, ...]


class Node:
    """One interned expression. `index` orders nodes by age; the fields below the line are memos."""

    __slots__ = (
        "actions",
        "alive",
        "classes",
        "completion",
        "count",
        "data",
        "first",
        "has_short",
        "high",
        "index",
        "is_regular",
        "kind",
        "low",
        "members",
        "parts",
        "passes",
        "resolved",
        "row",
        "shortest",
        "specials",
        "split",
        "tight",
    )

    def __init__(
        self,
        index: int,
        kind: Kind,
        *,
        parts: tuple[Node, ...] = (),
        data: bytes = b"",
        members: int = 0,
        low: int = 0,
        high: int = 0,
        actions: Actions = (),
    ) -> None:
        self.index = index
        self.kind = kind
        self.parts = parts
        self.data = data
        self.members = members
        self.low = low
        self.high = high
        self.actions = actions
        self.is_regular: bool = kind < Kind.DEFERRED and all(part.is_regular for part in parts)
        self.row: dict[int, Node] = {}
        self.first: int | None = None
        self.passes: tuple[Actions, ...] | None = None
        self.specials: frozenset[int] | None = None
        self.alive: bool | None = None
        self.has_short = False
        self.classes: tuple[int, ...] | None = None
        self.completion: object = None
        self.count: int | None = None
        self.tight: bool | None = None
        self.resolved: object = None
        self.split: object = None
        self.shortest = self._shortest()

    def _shortest(self) -> int:
        """A lower bound of the symbols in any text, without unfolding anything."""
        match self.kind:
            case Kind.LITERAL:
                return len(self.data)
            case Kind.SET | Kind.SPECIAL:
                return 1
            case Kind.CONCATENATION:
                return self.parts[0].shortest + self.parts[1].shortest
            case Kind.ALTERNATION:
                return min(part.shortest for part in self.parts)
            case Kind.INTERSECTION:
                return max(part.shortest for part in self.parts)
            case Kind.REPETITION:
                return self.parts[0].shortest * self.low
            case Kind.SCOPE | Kind.DISTINCT | Kind.GUARDED:
                return self.parts[0].shortest
            case _:
                return 0

    def __repr__(self) -> str:
        """Short: kind, index and what tells it apart."""
        detail = self.data or [part.index for part in self.parts] or self.low
        return f"<{self.kind.name} {self.index} {detail!r}>"
