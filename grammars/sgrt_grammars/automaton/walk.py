"""Masks of nodes: a depth-first walk of the token trie by derivatives, its results kept and shared.

A mask is computed as if every check of a register passed. Tokens that end a capture on their way are kept
apart as candidates: a matcher verifies those against its registers where that can matter.

A dense node (a string body in front of the rest of a document) is split: the tokens that stay inside the head are
found once for all tails, and the few that may leave it are walked for each tail.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgrt_grammars.automaton.arena import Arena
from sgrt_grammars.automaton.derive import Deriver
from sgrt_grammars.automaton.liveness import Liveness
from sgrt_grammars.automaton.node import FIRST_SPECIAL, Action, Actions, Kind, Node
from sgrt_grammars.automaton.search import RegisterSearch
from sgrt_grammars.automaton.simulation import Simulation
from sgrt_grammars.limits import Meter
from sgrt_grammars.mask import TokenMask, empty_mask, set_tokens
from sgrt_grammars.trie import TokenTrie
from sgrt_grammars.vocabulary import Vocabulary

_SINGLE, _MULTIPLE, _BEGAN = 1, 2, 4
_DENSE = 3000
"""Trie nodes after which a walk gives up and splits the node instead."""


@dataclass(frozen=True, slots=True, eq=False)
class NodeMask:
    """The tokens a node allows.

    `row`: those that end no capture. `single`: those that end the capture that was open before them.
    `multiple`: those that must always be verified (several ends, or a capture within the token).
    `tight`: those after which a capture has few texts to choose from, to be verified where a scope is open.
    """

    row: TokenMask
    single: NDArray[np.int32]
    multiple: NDArray[np.int32]
    tight: NDArray[np.int32]


@dataclass(slots=True)
class _Found:
    plain: list[int]
    single: list[int]
    multiple: list[int]
    tight: list[int]

    @classmethod
    def nothing(cls) -> _Found:
        return cls([], [], [], [])


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    inside: TokenMask
    ends: tuple[Node, ...]
    residual: FlatTrie


class FlatTrie:
    """A token trie as Python lists, which the interpreter indexes faster than arrays."""

    __slots__ = ("byte", "depth", "max_depth", "skip", "token_start", "tokens")

    def __init__(self, trie: TokenTrie) -> None:
        self.byte: list[int] = trie.byte.tolist()
        self.skip: list[int] = trie.skip.tolist()
        self.depth: list[int] = trie.depth.tolist()
        self.token_start: list[int] = trie.token_start.tolist()
        self.tokens: list[int] = trie.tokens.tolist()
        self.max_depth = trie.max_depth


class Masks:
    """Computes and keeps the masks of nodes."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        arena: Arena,
        deriver: Deriver,
        liveness: Liveness,
        simulation: Simulation,
        search: RegisterSearch,
        meter: Meter,
    ) -> None:
        self._vocabulary = vocabulary
        self._arena = arena
        self._deriver = deriver
        self._liveness = liveness
        self._simulation = simulation
        self._search = search
        self._meter = meter
        self._trie = FlatTrie(vocabulary.trie)
        self._kept: dict[int, NodeMask] = {}
        self._splits: dict[tuple[int, int], _Split] = {}
        self._stripped: dict[int, tuple[Node, int]] = {}

    @property
    def num_bytes(self) -> int:
        """Memory of the masks kept."""
        row = self._vocabulary.size // 8
        return row * (len(self._kept) + len(self._splits))

    def clear(self) -> None:
        """Forget every mask."""
        self._kept.clear()
        self._splits.clear()

    def of(self, node: Node) -> NodeMask:
        """The mask of `node`."""
        found = self._kept.get(node.index)
        if found is None:
            found = self._kept[node.index] = self._compute(node)
        return found

    def _compute(self, node: Node) -> NodeMask:
        found = _Found.nothing()
        base = empty_mask(self._vocabulary.size)
        if not self._walk(node, self._trie, found, _DENSE):
            found = _Found.nothing()
            options = node.parts if node.kind is Kind.ALTERNATION else (node,)
            for option in options:
                self._add_dense(option, base, found)
        set_tokens(base, set(found.plain))
        for token in self._deriver.specials(node):
            target, _ = self.strip(self._deriver.derive(node, FIRST_SPECIAL + token))
            if self._liveness.is_alive(target):
                set_tokens(base, [token])
        base.flags.writeable = False
        multiple = set(found.multiple)
        single = set(found.single) - multiple
        tight = set(found.tight) - multiple - single
        return NodeMask(base, _array(single), _array(multiple), _array(tight))

    def _add_dense(self, node: Node, row: TokenMask, found: _Found) -> None:
        while node.kind is Kind.DEFERRED:
            node = self._deriver.unfold(node)
        if node.kind is Kind.CONCATENATION and node.parts[0].is_regular:
            head, tail = node.parts
            split = self._split(head, self._deriver.first(tail))
            if not self._has_tight_end(split, tail):
                row |= split.inside
                self._walk(node, split.residual, found, None)
                return
        self._walk(node, self._trie, found, None)

    def _has_tight_end(self, split: _Split, tail: Node) -> bool:
        if tail.is_regular:
            return False
        return any(self._search.is_tight(self._arena.concatenation(end, tail)) for end in split.ends)

    def _split(self, head: Node, following: int) -> _Split:
        """The tokens that stay inside `head`, and a trie of those that may leave it by a byte of `following`."""
        found = self._splits.get((head.index, following))
        if found is not None:
            return found
        trie = self._trie
        inside: list[int] = []
        ends: dict[int, Node] = {}
        residual: set[int] = set()
        states = [head] * (trie.max_depth + 1)
        position, size = 0, len(trie.byte)
        while position < size:
            depth, byte = trie.depth[position], trie.byte[position]
            state = states[depth - 1]
            end = trie.skip[position]
            self._meter.tick()
            if following >> byte & 1 and self._deriver.is_nullable(state):
                residual.update(trie.tokens[trie.token_start[position] : trie.token_start[end]])
            target = self._deriver.derive(state, byte)
            if not self._liveness.is_alive(target):
                position = end
                continue
            first, last = trie.token_start[position], trie.token_start[position + 1]
            if first < last:
                inside.extend(trie.tokens[first:last])
                ends[target.index] = target
            states[depth] = target
            position += 1
        row = empty_mask(self._vocabulary.size)
        set_tokens(row, inside)
        entries = ((self._vocabulary.text(token) or b"", token) for token in residual)
        split = _Split(row, tuple(ends.values()), FlatTrie(TokenTrie(entries)))
        self._splits[head.index, following] = split
        return split

    def strip(self, node: Node) -> tuple[Node, int]:
        """`node` with its guards taken as passed, and what they did."""
        if node.kind is not Kind.ALTERNATION and node.kind is not Kind.GUARDED:
            return node, 0
        found = self._stripped.get(node.index)
        if found is None:
            plain, guards = self._simulation.resolve(node)
            flags = 0
            for actions, _ in guards:
                flags = _after(flags, actions)
            whole = self._arena.alternation((plain, *(target for _, target in guards)))
            found = self._stripped[node.index] = whole, flags
        return found

    def _walk(self, node: Node, trie: FlatTrie, found: _Found, limit: int | None) -> bool:
        """Add the tokens of `trie` that `node` allows; False if more than `limit` nodes were visited."""
        nodes = [node] * (trie.max_depth + 1)
        flags = [0] * (trie.max_depth + 1)
        position, size, visited = 0, len(trie.byte), 0
        while position < size:
            depth, byte = trie.depth[position], trie.byte[position]
            state = nodes[depth - 1]
            visited += 1
            if limit is not None and visited > limit:
                return False
            target = state.row.get(byte)
            if target is None:
                target = self._deriver.derive(state, byte)
            done = flags[depth - 1]
            if target.kind is Kind.ALTERNATION or target.kind is Kind.GUARDED:
                target, more = self.strip(target)
                done = _merged(done, more)
            if not self._liveness.is_alive(target):
                position = trie.skip[position]
                continue
            nodes[depth], flags[depth] = target, done
            first, last = trie.token_start[position], trie.token_start[position + 1]
            position += 1
            if first < last:
                self._sort_in(found, trie.tokens[first:last], target, done)
        self._meter.nodes_visited(visited)
        return True

    def _sort_in(self, found: _Found, tokens: list[int], target: Node, done: int) -> None:
        is_tight = self._search.is_tight(target)
        if done & _MULTIPLE or (done and is_tight):
            found.multiple.extend(tokens)
        elif done & _SINGLE:
            found.single.extend(tokens)
        elif is_tight:
            found.tight.extend(tokens)
        else:
            found.plain.extend(tokens)


def _array(tokens: set[int]) -> NDArray[np.int32]:
    return np.array(sorted(tokens), np.int32)


def _after(flags: int, actions: Actions) -> int:
    for action in actions:
        if action is Action.BEGIN:
            flags |= _BEGAN
        elif action >= Action.END_BYTES:
            flags |= _MULTIPLE if flags & (_BEGAN | _SINGLE) else _SINGLE
        else:
            flags |= 8
    return flags


def _merged(earlier: int, later: int) -> int:
    if later & _SINGLE and earlier & (_BEGAN | _SINGLE):
        later |= _MULTIPLE
    return earlier | later
