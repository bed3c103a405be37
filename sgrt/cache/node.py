"""A node of the radix tree, and the queue from which the least recently used leaf is evicted."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort


class Node:
    """A run of tokens and the pages that hold their keys and values.

    `key` is the run as packed tokens. A *run* node covers whole pages. A *tail* covers less than one
    page, has no children, and stands for the first tokens of its page only: the page's owner may go on
    writing behind them. `children` are found by their first page (or their whole key, for a tail);
    `runs` and `tails` hold the same keys sorted, because the longest common prefix with any child is that with
    a neighbour in lexicographic order.

    `locks` counts the handles at this node or below it. `last_used` is a logical time. `owner` is the group of
    requests that alone used it; it is empty when others did too. Only a root has a `salt` that counts, and only a
    root has no parent.
    """

    __slots__ = (
        "children",
        "is_detached",
        "is_queued",
        "is_tail",
        "key",
        "last_used",
        "locks",
        "owner",
        "pages",
        "parent",
        "runs",
        "salt",
        "tails",
    )

    def __init__(
        self, parent: Node | None, key: bytes, pages: list[int], *, is_tail: bool = False, salt: str = ""
    ) -> None:
        self.parent = parent
        self.key = key
        self.pages = pages
        self.is_tail = is_tail
        self.children: dict[bytes, Node] = {}
        self.runs: list[bytes] = []
        self.tails: list[bytes] = []
        self.locks = 0
        self.last_used = 0
        self.owner = ""
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
        insort(self.tails if child.is_tail else self.runs, name)

    def remove_child(self, name: bytes) -> Node:
        """Detach the child `name`. It keeps its parent so that handles can still unlock the path."""
        child = self.children.pop(name)
        order = self.tails if child.is_tail else self.runs
        del order[bisect_left(order, name)]
        child.is_detached = True
        return child

    def check(self, *, page_bytes: int, seals: bool) -> None:
        """Assert that order, locks and children are right; `seals`: whole pages are sealed, see `RadixTree`."""
        for order, is_tail in ((self.runs, False), (self.tails, True)):
            names = sorted(name for name, child in self.children.items() if child.is_tail == is_tail)
            assert order == names, "the order of the children is wrong"
        assert self.locks >= sum(child.locks for child in self.children.values()), "a path is half locked"
        for name, child in self.children.items():
            assert child.parent is self and child.key[:page_bytes] == name, "a child is filed wrongly"
            assert child.is_tail == (len(child.key) < page_bytes), "a run is filed as a tail"
            assert len(child.pages) * page_bytes == len(child.key) or (
                child.is_tail and len(child.pages) == 1 and not child.children
            ), "a run and its pages differ in length"
        for tail in self.tails:
            others = self.tails if seals else self.children
            assert not any(name.startswith(tail) for name in others if name != tail), (
                "a tail is the start of its sibling"
            )
        assert not self.is_evictable or self.is_queued, "an evictable leaf is not queued"


class _Heap:
    """Evictable leaves of one kind, least recently used first.

    Updates are lazy: an entry carries the time at which it was queued; a leaf that was
    used since goes back with its new time when it comes up, one that is no leaf any more is dropped.
    """

    __slots__ = ("_entries", "_tie")

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Node]] = []
        self._tie = 0

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, node: Node) -> None:
        """Queue `node` if it is evictable and not queued yet."""
        if node.is_evictable and not node.is_queued:
            node.is_queued = True
            self._tie += 1
            heapq.heappush(self._entries, (node.last_used, self._tie, node))

    def hurry(self, node: Node) -> None:
        """Queue `node` at its time, which is earlier than the one it may be queued at: a second entry is harmless."""
        node.is_queued = False
        self.push(node)

    def first(self) -> Node | None:
        """The least recently used evictable leaf, which stays; None when there is none."""
        while self._entries:
            queued_at, _, node = self._entries[0]
            if node.is_evictable and node.last_used == queued_at:
                return node
            self._drop_first()
            self.push(node)
        return None

    def pop(self) -> Node | None:
        """As `first`; the leaf goes."""
        node = self.first()
        if node is not None:
            self._drop_first()
        return node

    def drop_stale(self) -> None:
        """Forget entries that are no longer evictable, and all but one of a node."""
        kept, seen = [], set[Node]()
        for entry in sorted(self._entries):
            node = entry[2]
            node.is_queued = node.is_evictable
            if node.is_queued and node not in seen:
                seen.add(node)
                kept.append(entry)
        heapq.heapify(kept)
        self._entries = kept

    def _drop_first(self) -> None:
        heapq.heappop(self._entries)[2].is_queued = False


class EvictionQueue:
    """Evictable leaves, least recently used first; tails can be asked for alone."""

    __slots__ = ("_runs", "_tails")

    def __init__(self) -> None:
        self._runs = _Heap()
        self._tails = _Heap()

    def __len__(self) -> int:
        return len(self._runs) + len(self._tails)

    def push(self, node: Node) -> None:
        """Queue `node` if it is evictable and not queued yet."""
        (self._tails if node.is_tail else self._runs).push(node)

    def hurry(self, node: Node) -> None:
        """Queue `node`, which became less recently used."""
        (self._tails if node.is_tail else self._runs).hurry(node)

    def pop(self) -> Node | None:
        """The least recently used evictable leaf, or None when there is none."""
        run, tail = self._runs.first(), self._tails.first()
        if tail is None or (run is not None and run.last_used < tail.last_used):
            return self._runs.pop()
        return self._tails.pop()

    def pop_tail(self) -> Node | None:
        """The least recently used evictable tail, or None when there is none."""
        return self._tails.pop()

    def drop_stale(self) -> None:
        """Forget entries that are no longer evictable, so that the heaps cannot outgrow the tree."""
        self._runs.drop_stale()
        self._tails.drop_stale()
