"""Several continuations of one prefix as a tree: what they have in common is computed and scored once.

A row of logits behind a text scores every token that goes on from there. A path of the tree is one request; where paths
part, the later one scores from there on only, and takes the rest from the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sgrt_frontend.call import Score, TokenLogprob, Usage

Top = tuple[TokenLogprob, ...]
Targets = tuple[tuple[int, ...], ...]
"""For each row, in order, the tokens whose log-probabilities are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorePath:
    """One text of the tree: `tokens` behind the prefix, and what the rows from number `first_row` on score.

    Row number k stands behind the first k tokens.
    """

    tokens: tuple[int, ...]
    first_row: int
    targets: Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class PathScores:
    """What came of a path: log-probabilities in the form of its targets, and each row's best tokens if asked for."""

    rows: tuple[tuple[float, ...], ...]
    top: tuple[Top, ...]
    cached_tokens: int


@dataclass(slots=True)
class _Node:
    children: dict[int, _Node] = field(default_factory=dict)
    targets: dict[int, int] = field(default_factory=dict)  # token -> its place in the row
    path: int | None = None
    row: int = 0


class ScoreTree:
    """Which rows score which tokens of which continuation."""

    def __init__(self, continuations: Sequence[Sequence[int]]) -> None:
        self._continuations = continuations
        self._root = _Node()
        for tokens in continuations:
            node = self._root
            for place, token in enumerate(tokens):
                node.targets.setdefault(token, len(node.targets))
                if place < len(tokens) - 1:
                    node = node.children.setdefault(token, _Node())
        self.paths = tuple(self._paths()) if self._root.targets else ()

    def scores(self, prefix_tokens: int, found: Mapping[int, PathScores]) -> list[Score]:
        """The scores of the continuations, in their order, from what came of every path."""
        return [self._score(tokens, prefix_tokens, found) for tokens in self._continuations]

    def _score(self, tokens: Sequence[int], prefix_tokens: int, found: Mapping[int, PathScores]) -> Score:
        logprobs: list[float] = []
        top: list[Top] = []
        cached = 0
        node: _Node | None = self._root
        for token in tokens:
            assert node is not None and node.path is not None, "every token has a row"
            scores = found[node.path]
            logprobs.append(scores.rows[node.row][node.targets[token]])
            top += scores.top[node.row : node.row + 1]
            cached = scores.cached_tokens
            node = node.children.get(token)
        usage = Usage(prompt_tokens=prefix_tokens + len(tokens), cached_tokens=cached, output_tokens=0)
        return Score(logprobs=tuple(logprobs), top=tuple(top), usage=usage)

    def _paths(self) -> Iterator[ScorePath]:
        """A path to every leaf, depth first; each node's row belongs to the first path through it."""
        waiting: list[tuple[_Node, tuple[int, ...], int]] = [(self._root, (), 0)]
        number = 0
        while waiting:
            node, tokens, first_row = waiting.pop()
            rows = [node]
            node.path, node.row = number, 0
            path = list(tokens)
            while node.children:
                (token, child), *others = node.children.items()
                branch = tuple(path)
                waiting.extend(
                    (other, (*branch, other_token), len(branch) + 1)
                    for other_token, other in reversed(others)
                )
                path.append(token)
                child.path, child.row = number, len(rows)
                rows.append(child)
                node = child
            targets = tuple(tuple(made.targets) for made in rows)
            yield ScorePath(tokens=tuple(path), first_row=first_row, targets=targets)
            number += 1
