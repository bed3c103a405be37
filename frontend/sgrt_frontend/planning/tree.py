"""A radix tree of planned prompts: what is shared, and how long each part is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

Size = Callable[[tuple[int, ...]], int]


@dataclass(slots=True)
class _Node:
    tokens: tuple[int, ...]
    begins: float
    ends: float
    children: dict[int, _Node] = field(default_factory=dict)


@dataclass(slots=True)
class PlanTree:
    """Sequences with the time in which they are needed. A part is needed from the first use to the last."""

    size: Size
    _root: _Node = field(default_factory=lambda: _Node((), 0.0, 0.0))

    def shared(self, tokens: tuple[int, ...]) -> int:
        """How many tokens of a sequence are in the tree, from its beginning."""
        node, position, found = self._root, 0, 0
        while position < len(tokens):
            child = node.children.get(tokens[position])
            if child is None:
                break
            common = _common(child.tokens, tokens, position)
            found += self.size(child.tokens[:common])
            position += common
            if common < len(child.tokens):
                break
            node = child
        return found

    def insert(self, tokens: tuple[int, ...], begins: float, ends: float) -> None:
        """Add a sequence that is needed from one time to another."""
        node, position = self._root, 0
        while position < len(tokens):
            child = node.children.get(tokens[position])
            if child is None:
                node.children[tokens[position]] = _Node(tokens[position:], begins, ends)
                return
            common = _common(child.tokens, tokens, position)
            if common < len(child.tokens):
                child = self._split(node, child, common)
            child.begins, child.ends = min(child.begins, begins), max(child.ends, ends)
            node, position = child, position + common

    @staticmethod
    def _split(parent: _Node, child: _Node, at: int) -> _Node:
        upper = _Node(child.tokens[:at], child.begins, child.ends)
        child.tokens = child.tokens[at:]
        upper.children[child.tokens[0]] = child
        parent.children[upper.tokens[0]] = upper
        return upper

    def peak_pages(self, page_tokens: int) -> int:
        """The most pages needed at one time. A part that begins inside a page has a copy of that page."""
        changes: list[tuple[float, int]] = []
        for node, start in self._nodes():
            end = start + self.size(node.tokens)
            pages = -(-end // page_tokens) - start // page_tokens
            changes += [(node.begins, pages), (node.ends, -pages)]
        now = peak = 0
        for _, change in sorted(changes):  # at the same time, what ends goes first
            now += change
            peak = max(peak, now)
        return peak

    def _nodes(self) -> Iterator[tuple[_Node, int]]:
        """Every part with the number of tokens before it."""
        waiting = [(child, 0) for child in self._root.children.values()]
        while waiting:
            node, start = waiting.pop()
            yield node, start
            end = start + self.size(node.tokens)
            waiting.extend((child, end) for child in node.children.values())


def _common(edge: tuple[int, ...], tokens: tuple[int, ...], position: int) -> int:
    rest = tokens[position : position + len(edge)]
    if rest == edge:
        return len(edge)
    return next((i for i, (a, b) in enumerate(zip(edge, rest, strict=False)) if a != b), len(rest))
