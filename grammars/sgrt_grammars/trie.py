"""The prefix tree of a vocabulary in depth-first order, as flat arrays.

Node `i` stands for the byte string spelled on its path. `skip[i]` is the first node outside its
subtree, so a walk that dies at `i` goes on at `skip[i]`. The tokens are ordered by their bytes:
node `i` itself spells `tokens[token_start[i]:token_start[i + 1]]` (several when a vocabulary spells
a string more than once), and its whole subtree `tokens[token_start[i]:token_start[skip[i]]]`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class TokenTrie:
    """An immutable token trie; the empty string is not a node."""

    __slots__ = ("byte", "depth", "max_depth", "num_nodes", "skip", "token_start", "tokens")

    def __init__(self, entries: Iterable[tuple[bytes, int]]) -> None:
        ordered = sorted(entry for entry in entries if entry[0])
        byte = bytearray()
        skip: list[int] = []
        depth: list[int] = []
        token_start: list[int] = []
        open_nodes: list[int] = []
        previous = b""
        for position, (text, _) in enumerate(ordered):
            common = _common_prefix(previous, text)
            num_nodes = len(byte)
            while len(open_nodes) > common:
                skip[open_nodes.pop()] = num_nodes
            for index in range(common, len(text)):
                open_nodes.append(num_nodes)
                num_nodes += 1
                byte.append(text[index])
                skip.append(0)
                depth.append(index + 1)
                token_start.append(position)
            previous = text
        while open_nodes:
            skip[open_nodes.pop()] = len(byte)
        token_start.append(len(ordered))
        self.num_nodes: int = len(byte)
        self.byte: NDArray[np.uint8] = np.frombuffer(bytes(byte), np.uint8)
        self.skip: NDArray[np.int32] = np.array(skip, np.int32)
        self.depth: NDArray[np.int32] = np.array(depth, np.int32)
        self.token_start: NDArray[np.int32] = np.array(token_start, np.int32)
        self.tokens: NDArray[np.int32] = np.array([token for _, token in ordered], np.int32)
        self.max_depth: int = max(depth, default=0)

    def longest_match(self, data: bytes, start: int) -> tuple[int, int] | None:
        """(length, token) of the longest token that `data` has at `start`."""
        found: tuple[int, int] | None = None
        node, stop, position = 0, self.num_nodes, start
        while node < stop and position < len(data):
            if self.byte[node] != data[position]:
                node = int(self.skip[node])
                continue
            first = int(self.token_start[node])
            position += 1
            if first < int(self.token_start[node + 1]):
                found = position - start, int(self.tokens[first])
            stop = int(self.skip[node])
            node += 1
        return found


def _common_prefix(left: bytes, right: bytes) -> int:
    limit = min(len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    length = 0
    while left[length] == right[length]:
        length += 1
    return length
