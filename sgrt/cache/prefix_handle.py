"""What matched of a prefix: a path of the radix tree, locked while it is in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING

from sgrt.cache.node import Node

if TYPE_CHECKING:
    from sgrt.cache.radix import RadixTree


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialPage:
    """The first `num_tokens` tokens of `page` match; copy them, the page itself is not shared."""

    page: int
    num_tokens: int


class PrefixHandle:
    """A locked path of the tree: what is on it stays until `close`.

    `pages` are the whole pages that match, `partial` what can be copied beyond them. The handle
    refers to the partial page itself; the pages of the path are kept by the lock.
    """

    __slots__ = ("_node", "_tree", "pages", "partial")

    def __init__(self, tree: RadixTree, node: Node, pages: list[int], partial: PartialPage | None) -> None:
        self._tree = tree
        self._node: Node | None = node
        self.pages = pages
        self.partial = partial

    @property
    def num_tokens(self) -> int:
        """Tokens that match, the partial page's included."""
        tail = self.partial.num_tokens if self.partial is not None else 0
        return len(self.pages) * self._tree.page_tokens + tail

    @property
    def is_closed(self) -> bool:
        """Whether the path was unlocked."""
        return self._node is None

    def path(self) -> Iterator[Node]:
        """The nodes it locks that are part of the tree, the last one first."""
        node = self._node
        while node is not None:
            if not node.is_detached:
                yield node
            node = node.parent

    def release_partial(self) -> None:
        """Let go of the partial page: it was copied, or will not be."""
        if self.partial is not None:
            self._tree.allocator.release((self.partial.page,))
            self.partial = None

    def close(self) -> None:
        """Unlock the path. Closing twice is harmless."""
        node, self._node = self._node, None
        if node is not None:
            self.release_partial()
            self._tree.unlock(node)

    def __enter__(self) -> PrefixHandle:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
