"""A radix tree of token sequences: what the next one shares with those before, and how many use each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator

Tokens = tuple[int, ...]


class Part:
    """A run of tokens after a parent's, used by `uses` sequences."""

    __slots__ = ("children", "parent", "tokens", "uses")

    def __init__(self, parent: Part | None, tokens: Tokens) -> None:
        self.parent = parent
        self.tokens = tokens
        self.uses = 0
        self.children: dict[int, Part] = {}


class PlanTree:
    """Sequences by their tokens. Negative ones are unknown runs, of the length that `size` says."""

    def __init__(self, size: Callable[[Tokens], int] = len) -> None:
        self._size = size
        self._root = Part(None, ())

    def insert(self, tokens: Tokens) -> None:
        """Count one more sequence."""
        part, position = self._root, 0
        while position < len(tokens):
            child = part.children.get(tokens[position])
            if child is None:
                child = part.children[tokens[position]] = Part(part, tokens[position:])
            else:
                common = _common(child.tokens, tokens, position)
                if common < len(child.tokens):
                    child = _split(part, child, common)
            child.uses += 1
            part, position = child, position + len(child.tokens)

    def shared(self, tokens: Tokens) -> int:
        """How much of a sequence is in the tree, from its beginning."""
        part, position, found = self._root, 0, 0
        while (child := part.children.get(tokens[position]) if position < len(tokens) else None) is not None:
            common = _common(child.tokens, tokens, position)
            found += self._size(child.tokens[:common])
            if common < len(child.tokens):
                break
            part, position = child, position + common
        return found

    def path(self, tokens: Tokens) -> list[Part]:
        """The parts of a sequence that was inserted, from the beginning."""
        parts: list[Part] = []
        part, position = self._root, 0
        while position < len(tokens):
            part = part.children[tokens[position]]
            parts.append(part)
            position += len(part.tokens)
        return parts

    def parts(self) -> Iterator[Part]:
        """Every part, depth first, siblings in the order in which they came."""
        waiting = list(reversed(self._root.children.values()))
        while waiting:
            part = waiting.pop()
            yield part
            waiting.extend(reversed(part.children.values()))


def _common(edge: Tokens, tokens: Tokens, position: int) -> int:
    """How many tokens of `edge` stand in `tokens` from `position` on."""
    rest = tokens[position : position + len(edge)]
    if rest == edge:
        return len(edge)
    return next((i for i, (a, b) in enumerate(zip(edge, rest, strict=False)) if a != b), len(rest))


def _split(parent: Part, child: Part, at: int) -> Part:
    upper = Part(parent, child.tokens[:at])
    upper.uses = child.uses
    child.tokens, child.parent = child.tokens[at:], upper
    upper.children[child.tokens[0]] = child
    parent.children[upper.tokens[0]] = upper
    return upper
