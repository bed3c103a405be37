"""The arena: constructors that intern nodes in a normal form.

The normal form keeps the number of derivatives finite (alternations are sets) and small: adjacent
literals are joined, options with one regular tail share it, and overlapping repetitions of one
body in front of one tail become one. The regular part in front of a tail that is not regular is one head,
whose states every document with such a part shares.
"""

from __future__ import annotations

from collections.abc import Iterable

from sgrt_grammars.automaton.node import ALL_BYTES, UNBOUNDED, Action, Actions, Kind, Node
from sgrt_grammars.errors import InvalidConstraint
from sgrt_grammars.limits import Meter


class Arena:
    """Interns nodes; equal expressions are the same object for as long as the arena lives."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._table: dict[tuple[object, ...], Node] = {}
        self.nodes: list[Node] = []
        self.nothing = self._intern(Kind.NOTHING)
        self.empty = self._intern(Kind.EMPTY)
        self.everything = self._intern(Kind.COMPLEMENT, parts=(self.nothing,))
        self._actions = {action: self._intern(Kind.ACTION, low=int(action)) for action in Action}

    def _intern(
        self,
        kind: Kind,
        *,
        parts: tuple[Node, ...] = (),
        data: bytes = b"",
        members: int = 0,
        low: int = 0,
        high: int = 0,
        actions: Actions = (),
    ) -> Node:
        key = (kind, data, members, low, high, actions, *(part.index for part in parts))
        node = self._table.get(key)
        if node is None:
            self._meter.state_created()
            node = Node(
                len(self.nodes),
                kind,
                parts=parts,
                data=data,
                members=members,
                low=low,
                high=high,
                actions=actions,
            )
            self._table[key] = node
            self.nodes.append(node)
        return node

    def literal(self, data: bytes) -> Node:
        """Exactly `data`."""
        return self._intern(Kind.LITERAL, data=data) if data else self.empty

    def byte_set(self, members: int) -> Node:
        """One byte out of the set whose bits are `members`."""
        if not 0 <= members <= ALL_BYTES:
            raise InvalidConstraint("a byte set has bits beyond 255")
        if members & (members - 1) == 0:
            return self.literal(bytes([members.bit_length() - 1])) if members else self.nothing
        return self._intern(Kind.SET, members=members)

    def action(self, action: Action) -> Node:
        """A mark of no width."""
        return self._actions[action]

    def deferred(self, number: int) -> Node:
        """The deferred expression of this number."""
        return self._intern(Kind.DEFERRED, low=number)

    def special(self, token: int) -> Node:
        """One special token by id."""
        return self._intern(Kind.SPECIAL, low=token)

    def scope(self, body: Node) -> Node:
        """`body` with a register of its own; only a wrapper where something is captured."""
        enter, leave = self.action(Action.ENTER), self.action(Action.EXIT)
        return self._wrap(Kind.SCOPE, body, (enter, leave))

    def distinct(self, body: Node, end: Action) -> Node:
        """`body`, captured; `end` compares and records what was captured."""
        return self._wrap(Kind.DISTINCT, body, (self.action(Action.BEGIN), self.action(end)))

    def _wrap(self, kind: Kind, body: Node, marks: tuple[Node, Node]) -> Node:
        if body is self.nothing:
            return body
        expansion = self.concatenation(marks[0], self.concatenation(body, marks[1]))
        return self._intern(kind, parts=(expansion, body))

    def guarded(self, actions: Actions, node: Node) -> Node:
        """Do `actions`, then go on in `node`."""
        if not actions or node is self.nothing:
            return node
        if node.kind is Kind.ALTERNATION:
            return self.alternation(self.guarded(actions, part) for part in node.parts)
        if node.kind is Kind.GUARDED:
            actions, node = actions + node.actions, node.parts[0]
        return self._intern(Kind.GUARDED, parts=(node,), actions=actions)

    def concatenation(self, head: Node, tail: Node) -> Node:
        """`head` then `tail`, nested to the right; what is regular in front of what is not is one head."""
        prefix: list[Node] = []
        while head.kind is Kind.CONCATENATION and (not head.is_regular or tail.is_regular):
            prefix.append(head.parts[0])
            head = head.parts[1]
        result = self._pair(head, tail)
        for part in reversed(prefix):
            result = self._pair(part, result)
        return result

    def _pair(self, head: Node, tail: Node) -> Node:
        if head is self.nothing or tail is self.nothing:
            return self.nothing
        if head is self.empty:
            return tail
        if tail is self.empty:
            return head
        if head.kind is Kind.GUARDED:
            return self.guarded(head.actions, self.concatenation(head.parts[0], tail))
        if head.kind is Kind.ALTERNATION and any(part.kind is Kind.GUARDED for part in head.parts):
            return self.alternation(self.concatenation(part, tail) for part in head.parts)
        return self._joined_pair(head, tail)

    def _joined_pair(self, head: Node, tail: Node) -> Node:
        if head.is_regular and tail.kind is Kind.CONCATENATION:
            first, rest = tail.parts
            if first.is_regular and not rest.is_regular:
                return self._pair(self.concatenation(head, first), rest)
        if head.kind is Kind.LITERAL:
            if tail.kind is Kind.LITERAL:
                return self.literal(head.data + tail.data)
            if tail.kind is Kind.CONCATENATION and tail.parts[0].kind is Kind.LITERAL:
                return self._pair(self.literal(head.data + tail.parts[0].data), tail.parts[1])
        return self._intern(Kind.CONCATENATION, parts=(head, tail))

    def alternation(self, options: Iterable[Node]) -> Node:
        """Any of `options`."""
        members = 0
        found: dict[int, Node] = {}
        waiting = list(options)
        while waiting:
            option = waiting.pop()
            if option.kind is Kind.ALTERNATION:
                waiting.extend(option.parts)
            elif option.kind is Kind.SET:
                members |= option.members
            elif option.kind is Kind.LITERAL and len(option.data) == 1:
                members |= 1 << option.data[0]
            elif option is not self.nothing:
                found[option.index] = option
        if members:
            union = self.byte_set(members)
            found[union.index] = union
        if self.everything.index in found:
            return self.everything if all(n.is_regular for n in found.values()) else self._union(found)
        return self._union(self._merged(found))

    def _union(self, found: dict[int, Node]) -> Node:
        if len(found) <= 1:
            return next(iter(found.values()), self.nothing)
        return self._intern(Kind.ALTERNATION, parts=tuple(found[index] for index in sorted(found)))

    def _merged(self, found: dict[int, Node]) -> dict[int, Node]:
        """Join options that share their tail: regular heads into one head, repetitions into one range."""
        by_tail: dict[int, list[Node]] = {}
        for option in found.values():
            tail = option.parts[1] if option.kind is Kind.CONCATENATION else self.empty
            head = option.parts[0] if option.kind is Kind.CONCATENATION else option
            if head.is_regular:
                by_tail.setdefault(tail.index, []).append(option)
        result = dict(found)
        for tail_index, group in by_tail.items():
            if len(group) < 2:
                continue
            for option in group:
                del result[option.index]
            if tail_index == self.empty.index:
                joined = self._joined(group)
            else:
                heads = self.alternation(self._joined([option.parts[0] for option in group]))
                joined = [self._pair(heads, self.nodes[tail_index])]
            result.update({option.index: option for option in joined})
        return result

    def _joined(self, heads: list[Node]) -> list[Node]:
        """The same union with overlapping repetitions of one body joined."""
        ranges: dict[int, list[tuple[int, int]]] = {}
        bodies: dict[int, Node] = {}
        others: list[Node] = []
        for head in heads:
            body, low, high = (
                (head.parts[0], head.low, head.high) if head.kind is Kind.REPETITION else (head, 1, 1)
            )
            ranges.setdefault(body.index, []).append((low, high))
            bodies[body.index] = body
        for index, spans in ranges.items():
            others.extend(self.repetition(bodies[index], low, high) for low, high in _joined_ranges(spans))
        return others

    def repetition(self, body: Node, low: int, high: int) -> Node:
        """`body` between `low` and `high` times (`UNBOUNDED`)."""
        if low < 0 or high < low:
            raise InvalidConstraint(f"a repetition of {low} to {high} times is not possible")
        if body is self.nothing:
            return self.empty if low == 0 else self.nothing
        if body is self.empty or high == 0:
            return self.empty
        if low == high == 1:
            return body
        if body.kind is Kind.REPETITION and body.low <= 1 and body.high == UNBOUNDED:
            return self._intern(Kind.REPETITION, parts=body.parts, low=body.low * low, high=UNBOUNDED)
        return self._intern(Kind.REPETITION, parts=(body,), low=low, high=high)

    def intersection(self, parts: Iterable[Node]) -> Node:
        """Texts in every part."""
        found = self._conjuncts(parts)
        if self.nothing.index in found:
            return self.nothing
        for part in found.values():
            if part.kind is Kind.COMPLEMENT and part.parts[0].index in found:
                return self.nothing
        if len(found) <= 1:
            return next(iter(found.values()), self.everything)
        return self._intern(Kind.INTERSECTION, parts=tuple(found[index] for index in sorted(found)))

    def _conjuncts(self, parts: Iterable[Node]) -> dict[int, Node]:
        """The distinct parts, nested intersections flattened and byte sets met."""
        found: dict[int, Node] = {}
        members: int | None = None
        waiting = list(parts)
        while waiting:
            part = waiting.pop()
            if not part.is_regular:
                raise InvalidConstraint("the parts of an intersection must be regular")
            if part.kind is Kind.INTERSECTION:
                waiting.extend(part.parts)
            elif part.kind is Kind.SET:
                members = part.members & (ALL_BYTES if members is None else members)
            elif part is not self.everything:
                found[part.index] = part
        if members is not None:
            one = self.byte_set(members)
            found[one.index] = one
        return found

    def complement(self, body: Node) -> Node:
        """Byte strings not in `body`."""
        if not body.is_regular:
            raise InvalidConstraint("the body of a complement must be regular")
        if body.kind is Kind.COMPLEMENT:
            return body.parts[0]
        return self._intern(Kind.COMPLEMENT, parts=(body,))


def _joined_ranges(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return joined
