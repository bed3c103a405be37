"""From expressions to nodes: an iterative bottom-up walk, so that depth costs no Python stack."""

from __future__ import annotations

from sgrt_grammars.automaton.arena import Arena
from sgrt_grammars.automaton.deferred import DeferredTable
from sgrt_grammars.automaton.members import members_expression
from sgrt_grammars.automaton.node import UNBOUNDED, Action, Kind, Node
from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint
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
    Scope,
    SpecialToken,
    Texts,
)
from sgrt_grammars.limits import Limits


def children(expression: Expression) -> tuple[Expression, ...]:
    """The direct parts of an expression."""
    match expression:
        case Concatenation(parts) | Intersection(parts):
            return parts
        case Alternation(options):
            return options
        case Repetition(body, _, _) | Complement(body) | Scope(body) | Distinct(body, _):
            return (body,)
        case _:
            return ()


_ASCII = (1 << 0x7F) - (1 << 0x20)


class Builder:
    """Interns expressions into an arena."""

    def __init__(self, arena: Arena, deferred: DeferredTable, limits: Limits, alphabet: int) -> None:
        self._arena = arena
        self._spells_ascii = alphabet & _ASCII == _ASCII
        self._deferred = deferred
        self._limits = limits

    def build(self, expression: Expression) -> Node:
        """The node of `expression`."""
        done: dict[int, Node] = {}
        stack: list[tuple[Expression, bool]] = [(expression, False)]
        while stack:
            current, is_ready = stack.pop()
            if id(current) in done:
                continue
            parts = children(current)
            if is_ready or not parts:
                done[id(current)] = self._node(current, [done[id(part)] for part in parts])
                continue
            if len(stack) > self._limits.max_depth + 1_000_000:
                raise CompileLimitExceeded("an expression is nested too deeply", limit="max_depth")
            stack.append((current, True))
            stack.extend((part, False) for part in parts)
        return done[id(expression)]

    def _node(self, expression: Expression, parts: list[Node]) -> Node:
        arena = self._arena
        match expression:
            case Concatenation():
                result = arena.empty
                for part in reversed(parts):
                    result = arena.concatenation(part, result)
                return result
            case Alternation():
                return factored_alternation(arena, parts)
            case Repetition(_, minimum, maximum):
                return arena.repetition(parts[0], minimum, UNBOUNDED if maximum is None else maximum)
            case Intersection():
                return arena.intersection(parts)
            case Complement():
                return arena.complement(parts[0])
            case Scope():
                return arena.scope(parts[0])
            case Distinct(_, canonical):
                end = Action.END_BYTES if canonical is Canonical.BYTES else Action.END_JSON
                return arena.distinct(parts[0], end)
            case _:
                return self._leaf(expression)

    def _leaf(self, expression: Expression) -> Node:
        match expression:
            case Literal(data):
                return self._arena.literal(data)
            case Texts(options):
                return factored_alternation(self._arena, [self._arena.literal(one) for one in options])
            case ByteSet(members):
                return self._arena.byte_set(members)
            case Deferred():
                node = self._arena.deferred(self._deferred.number(expression))
                if expression.is_satisfiable and self._spells_ascii:
                    node.alive = True
                node.has_short = expression.build_short is not None
                return node
            case Members():
                return self.build(members_expression(expression))
            case SpecialToken(token_id):
                return self._arena.special(token_id)
            case _:
                raise InvalidConstraint(f"unknown expression {expression!r}")


def factored_alternation(arena: Arena, options: list[Node]) -> Node:
    """The alternation with literals of a common prefix factored into a tree (enums, keys of objects)."""
    literals: list[tuple[bytes, Node]] = []
    others: list[Node] = []
    for option in options:
        if option.kind is Kind.LITERAL:
            literals.append((option.data, arena.empty))
        elif option.kind is Kind.CONCATENATION and option.parts[0].kind is Kind.LITERAL:
            literals.append((option.parts[0].data, option.parts[1]))
        else:
            others.append(option)
    if len(literals) > 1:
        others.append(_prefix_tree(arena, literals))
    else:
        others.extend(arena.concatenation(arena.literal(data), tail) for data, tail in literals)
    return arena.alternation(others)


class _Branch:
    """An open branch of the prefix tree: the options below `depth` bytes of the current literal."""

    __slots__ = ("depth", "options")

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.options: list[Node] = []


def _prefix_tree(arena: Arena, literals: list[tuple[bytes, Node]]) -> Node:
    """Fold sorted literals into a compressed tree, closing branches from the deepest up."""
    ordered = sorted(literals, key=lambda entry: (entry[0], entry[1].index))
    branches = [_Branch(0)]
    for position, (data, tail) in enumerate(ordered):
        following = ordered[position + 1][0] if position + 1 < len(ordered) else b""
        common = _common_prefix(data, following) if position + 1 < len(ordered) else 0
        depth, node = len(data), tail
        while branches[-1].depth > common:
            branch = branches[-1]
            branch.options.append(arena.concatenation(arena.literal(data[branch.depth : depth]), node))
            depth, node = branch.depth, arena.alternation(branch.options)
            branches.pop()
        if branches[-1].depth < common:
            branches.append(_Branch(common))
        branch = branches[-1]
        branch.options.append(arena.concatenation(arena.literal(data[branch.depth : depth]), node))
    return arena.alternation(branches[0].options)


def _common_prefix(left: bytes, right: bytes) -> int:
    limit = min(len(left), len(right))
    for index in range(limit):
        if left[index] != right[index]:
            return index
    return limit
