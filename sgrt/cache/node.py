"""A node of the radix tree, and the queue from which the least recently used leaf is evicted."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort


class Node:
    """A run of tokens and the pages that hold their keys and values.

    `key` is the run as packed tokens. A *run* node covers whole pages. A *tail* covers less than one
    page, has no children, and stands for the first tokens of its page only: the page's owner may go on
    writing behind them. `children` are found by their first page (or their whole key, for a tail);
    `order` holds the same keys sorted, because the longest common prefix with any child is that with
    a neighbour in lexicographic order.

    `locks` counts the handles at this node or below it. `last_used` is a logical time. Only a root has
    a `salt` that counts, and only a root has no parent.
    """

    __slots__ = (
        "children",
        "is_detached",
        "is_queued",
        "key",
        "last_used",
        "locks",
        "order",
        "pages",
        "parent",
        "salt",
    )

    def __init__(self, parent: Node | None, key: bytes, pages: list[int], *, salt: str = "") -> None:
        self.parent = parent
        self.key = key
        self.pages = pages
        self.children: dict[bytes, Node] = {}
        self.order: list[bytes] = []
        self.locks = 0
        self.last_used = 0
        self.is_queued = False
        self.is_detached = False
        self.salt = salt

    @property
    def is_evictable(self) -> bool:
        """Whether this is an unlocked leaf that is still part of the tree (and not a root)."""
        return self.locks == 0 and not self.children and not self.is_detached and self.parent is not None

    def add_child(self, name: bytes, child: Node) -> None:
        """Attach `child`, whose first page (or whole key) is `name`."""
        self.children[name] = child
        insort(self.order, name)

    def remove_child(self, name: bytes) -> Node:
        """Detach the child `name`. It keeps its parent so that handles can still unlock the path."""
        child = self.children.pop(name)
        del self.order[bisect_left(self.order, name)]
        child.is_detached = True
        return child


class EvictionQueue:
    """Evictable leaves, least recently used first.

    A heap with lazy updates: an entry carries the time at which it was queued; a leaf that was
    used since goes back with its new time when it comes up, one that is no leaf any more is dropped.
    """

    __slots__ = ("_heap", "_tie")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Node]] = []
        self._tie = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, node: Node) -> None:
        """Queue `node` if it is evictable and not queued yet."""
        if node.is_evictable and not node.is_queued:
            node.is_queued = True
            self._tie += 1
            heapq.heappush(self._heap, (node.last_used, self._tie, node))

    def pop(self) -> Node | None:
        """The least recently used evictable leaf, or None when there is none."""
        while self._heap:
            queued_at, _, node = heapq.heappop(self._heap)
            node.is_queued = False
            if not node.is_evictable:
                continue
            if node.last_used == queued_at:
                return node
            self.push(node)
        return None

    def drop_stale(self) -> None:
        """Forget entries that are no longer evictable, so that the heap cannot outgrow the tree."""
        kept = []
        for entry in self._heap:
            node = entry[2]
            node.is_queued = node.is_evictable
            if node.is_queued:
                kept.append(entry)
        heapq.heapify(kept)
        self._heap = kept
