"""Which tokens spell a run of symbols."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from sgrt_grammars.automaton.node import FIRST_SPECIAL
from sgrt_grammars.trie import TokenTrie


class Speller:
    """Fewest tokens for a run of symbols."""

    def __init__(self, trie: TokenTrie) -> None:
        self._trie = trie
        self._children: dict[int, int] | None = None

    @property
    def longest(self) -> int:
        """Bytes of the longest token."""
        return max(1, self._trie.max_depth)

    def _child_table(self) -> dict[int, int]:
        if self._children is None:
            trie = self._trie
            table: dict[int, int] = {}
            path: list[int] = []
            depths, labels = trie.depth.tolist(), trie.byte.tolist()
            for node, depth in enumerate(depths):
                del path[depth - 1 :]
                parent = path[-1] + 1 if path else 0
                table[parent << 8 | labels[node]] = node
                path.append(node)
            self._children = table
        return self._children

    def matches(self, symbols: Sequence[int], start: int) -> Generator[tuple[int, int], None, None]:
        """(length, token) of every token that spells `symbols[start:start + length]`."""
        table, trie = self._child_table(), self._trie
        parent = 0
        for position in range(start, len(symbols)):
            symbol = symbols[position]
            if symbol >= FIRST_SPECIAL:
                if position == start:
                    yield 1, symbol - FIRST_SPECIAL
                return
            node = table.get(parent << 8 | symbol)
            if node is None:
                return
            first = int(trie.token_start[node])
            if first < int(trie.token_start[node + 1]):
                yield position - start + 1, int(trie.tokens[first])
            parent = node + 1
