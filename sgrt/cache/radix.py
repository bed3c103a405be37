"""The radix tree: which token runs have their keys and values in which pages.

Matching is exact to the token. Whole pages are shared; of a page that matches in part, the matching
tokens are offered as a `PartialPage` to be copied. Keys are packed tokens (`pack_tokens`), so that
runs are compared and hashed at memory speed and the tree holds no tensors and no Python ints per token.

Where the allocator has tail pages, whole pages are sealed: nothing can be copied out of them, so a page matches
in part only where it is a tail, and a tail stays beside the sealed pages that continue it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator

from sgrt.cache.allocator import PageAllocator
from sgrt.cache.node import EvictionQueue, Node
from sgrt.cache.prefix_handle import PartialPage, PrefixHandle

TOKEN_BYTES = 4
_SPARE_QUEUE_ENTRIES = 64


def pack_tokens(tokens: Iterable[int]) -> bytes:
    """Token ids as the tree's key: four bytes each, in the machine's byte order."""
    return array("I", tokens).tobytes()


def common_prefix_tokens(left: bytes, right: bytes) -> int:
    """How many leading tokens two packed keys share."""
    shorter = min(len(left), len(right))
    left, right = left[:shorter], right[:shorter]
    if left == right:
        return shorter // TOKEN_BYTES
    difference = int.from_bytes(left, "little") ^ int.from_bytes(right, "little")
    first_bit = (difference & -difference).bit_length() - 1
    return first_bit // (8 * TOKEN_BYTES)


class RadixTree:
    """Token runs to page ids, with locks and least-recently-used eviction of unlocked leaves.

    Every page in the tree carries one reference of the tree. Texts under different salts never meet.
    """

    __slots__ = (
        "_clock",
        "_evictable",
        "_held",
        "_nodes",
        "_page_bytes",
        "_queue",
        "_roots",
        "_seals",
        "_tails",
        "allocator",
        "page_tokens",
    )

    def __init__(self, allocator: PageAllocator, *, page_tokens: int) -> None:
        self.allocator = allocator
        self.page_tokens = page_tokens
        self._seals = allocator.num_tail_pages > 0
        self._page_bytes = page_tokens * TOKEN_BYTES
        self._roots: dict[str, Node] = {}
        self._queue = EvictionQueue()
        self._clock = 0
        self._held = 0
        self._evictable = 0
        self._nodes = 0
        self._tails = 0

    @property
    def num_pages(self) -> int:
        """Pages the tree refers to, tail pages not counted."""
        return self._held - (self._tails if self._seals else 0)

    @property
    def num_evictable_pages(self) -> int:
        """Pages that eviction could drop now: those on no locked path. Tail pages are not counted."""
        return self._evictable - (self._tails if self._seals else 0)

    def num_pages_freed_by(self, handles: Iterable[PrefixHandle]) -> int:
        """Pages that eviction could drop as well if `handles` were closed: those that nothing else locks.

        Tail pages of a tree with sealed pages are not counted; no lock keeps them.
        """
        locks = Counter(node for handle in handles for node in handle.path())
        return sum(len(node.pages) for node, count in locks.items() if node.locks == count)

    def peek(self, key: bytes, *, salt: str = "") -> int:
        """Tokens of `key` a match would find. Changes nothing, not even the order of eviction."""
        node = self._roots.get(salt)
        if node is None:
            return 0
        offset = 0
        while (child := self._child(node, key, offset)) is not None:
            if not key.startswith(child.key, offset):
                shared = common_prefix_tokens(child.key, key[offset : offset + len(child.key)])
                return offset // TOKEN_BYTES + shared - (shared % self.page_tokens if self._seals else 0)
            node, offset = child, offset + len(child.key)
        _, shared = self._best_partial(node, key[offset : offset + self._page_bytes])
        return offset // TOKEN_BYTES + shared

    def match(self, key: bytes, *, salt: str = "", owner: str = "") -> PrefixHandle:
        """The longest prefix of `key` in the tree, locked; see `expire` for `owner`."""
        node, offset, pages = self._descend(self._root(salt), key)
        child, shared = self._best_partial(node, key[offset : offset + self._page_bytes])
        partial = None
        if child is not None:
            self._touch(child)
            _share(child, owner)
            partial = PartialPage(page=child.pages[0], num_tokens=shared)
            self.allocator.share((partial.page,))
        self._lock(node)
        _share(node, owner)
        return PrefixHandle(self, node, pages, partial)

    def hold(self, key: bytes, *, salt: str = "") -> PrefixHandle:
        """As `match`, to keep and not to use: what matches of a last page stays in the tree as well.

        (Where whole pages are sealed it does not: no lock keeps a tail.)
        """
        node, offset, pages = self._descend(self._root(salt), key)
        child, _ = self._best_partial(node, key[offset : offset + self._page_bytes])
        if child is not None and not self._seals:
            node = self._split(child, 1) if len(child.pages) > 1 else child
        self._touch(node)
        self._lock(node)
        return PrefixHandle(self, node, pages, None)

    def insert(self, key: bytes, pages: list[int], *, salt: str = "", owner: str = "") -> PrefixHandle:
        """Record that `pages` hold the tokens of `key`; returns the locked path to its end.

        Where the tree has a run already, its own pages stay. The tree takes references of its own.
        A last page that is not full becomes a tail, which the next longer insert replaces (a longer tail alone,
        where whole pages are sealed; there the path does not reach into the tail, so no lock keeps it).
        """
        assert len(pages) * self._page_bytes >= len(key), "fewer pages than the tokens need"
        node, offset, found = self._descend(self._root(salt), key)
        _share(node, owner)
        whole = len(key) - len(key) % self._page_bytes
        if offset < whole:
            run = list(pages[len(found) : whole // self._page_bytes])
            node = self._attach(node, key[offset:whole], run, owner)
            found, offset = found + run, whole
        end = node
        if offset < len(key):
            end = self._insert_tail(node, key[offset:], pages[whole // self._page_bytes], owner)
        self._touch(end)
        self._lock(end)
        return PrefixHandle(self, end, found, None)

    def evict(self, num_pages: int) -> int:
        """Free up to `num_pages` pages, least recently used leaves first, from their ends.

        Returns how many pages became free, tail pages not counted. Nothing on a locked path is touched.
        """
        freed = 0
        while freed < num_pages and (leaf := self._queue.pop()) is not None:
            if self._seals and leaf.is_tail:
                self._remove_leaf(leaf)
                self._let_go(leaf.pages)
                continue
            count = min(num_pages - freed, len(leaf.pages))
            dropped = leaf.pages[-count:]
            if count == len(leaf.pages):
                self._remove_leaf(leaf)
            else:
                del leaf.pages[-count:]
                leaf.key = leaf.key[: -count * self._page_bytes]
                self._queue.push(leaf)
            freed += self._let_go(dropped)
        return freed

    def evict_tails(self, num_pages: int) -> int:
        """Free up to `num_pages` pages of tails, least recently used first; returns how many became free."""
        freed = 0
        while freed < num_pages and (tail := self._queue.pop_tail()) is not None:
            self._remove_leaf(tail)
            freed += self._let_go(tail.pages)
        return freed

    def forget(self, salt: str) -> int:
        """Drop every unlocked run under `salt`; returns how many pages became free."""
        root = self._roots.get(salt)
        freed = 0
        for node in reversed(list(self._below(root))) if root is not None else ():
            if node.is_evictable:  # children come first: they are below their parents
                self._remove_leaf(node)
                freed += self._let_go(node.pages)
        return freed

    def expire(self, key: bytes, *, owner: str, salt: str = "") -> None:
        """The group `owner` is done with the tokens of `key`: what nobody locks, and no one else used, goes first.

        What others used was used just now.
        """
        node, offset = self._roots.get(salt), 0
        while node is not None:
            if node.owner != owner:
                self._touch(node)
            elif node.locks == 0:
                node.last_used = 0
                self._queue.hurry(node)
            child = self._child(node, key, offset) or node.children.get(key[offset:])
            offset += len(child.key) if child is not None else 0
            node = child

    def unlock(self, node: Node) -> None:
        """Release one lock on the path to `node` (called by its handle)."""
        self._touch(node)
        step: Node | None = node
        while step is not None:
            assert step.locks > 0, "a path was unlocked twice"
            step.locks -= 1
            if step.locks == 0 and not step.is_detached:
                self._evictable += len(step.pages)
            if step.parent is None and not step.children and step.locks == 0:
                self._forget_root(step)
            step = step.parent
        self._queue.push(node)
        if node.is_detached and node.parent is not None:
            self._queue.push(node.parent)

    def check_integrity(self) -> None:
        """Assert the tree's invariants: counts, references, order, locks, tails, and the queue."""
        nodes = [node for root in self._roots.values() for node in self._below(root)]
        held = [page for node in nodes for page in node.pages]
        assert len(held) == len(set(held)) == self._held, "a page lies in the tree twice or is miscounted"
        assert all(self.allocator.references(page) > 0 for page in held), "the tree holds a free page"
        assert self._nodes == sum(1 for node in nodes if node.parent is not None), "nodes are miscounted"
        assert self._tails == sum(1 for node in nodes if node.is_tail), "tails are miscounted"
        unlocked = sum(len(node.pages) for node in nodes if node.locks == 0)
        assert unlocked == self._evictable, f"evictable pages: {self._evictable} counted, {unlocked} there"
        for node in nodes:
            node.check(page_bytes=self._page_bytes, seals=self._seals)

    def held_pages(self) -> list[int]:
        """Every page the tree refers to, each once."""
        return [page for root in self._roots.values() for node in self._below(root) for page in node.pages]

    # -- walking -----------------------------------------------------------------------------------

    def _root(self, salt: str) -> Node:
        root = self._roots.get(salt)
        if root is None:
            root = self._roots[salt] = Node(None, b"", [], salt=salt)
        return root

    def _child(self, node: Node, key: bytes, offset: int) -> Node | None:
        """The run that starts with the whole page at `offset`, if the key has one there."""
        name = key[offset : offset + self._page_bytes]
        return node.children.get(name) if len(name) == self._page_bytes else None

    def _descend(self, node: Node, key: bytes) -> tuple[Node, int, list[int]]:
        """Follow whole pages as far as they match, splitting the last run where the texts part."""
        offset = 0
        pages: list[int] = []
        while (child := self._child(node, key, offset)) is not None:
            if not key.startswith(child.key, offset):
                shared = common_prefix_tokens(child.key, key[offset : offset + len(child.key)])
                child = self._split(child, shared // self.page_tokens)
            node = child
            pages += child.pages
            offset += len(child.key)
        return node, offset, pages

    def _best_partial(self, node: Node, rest: bytes) -> tuple[Node | None, int]:
        """The child whose page can be copied and shares most tokens with `rest`, and how many.

        `rest` matches no whole page.
        """
        best: Node | None = None
        most = 0
        for order in (node.tails,) if self._seals else (node.tails, node.runs):
            place = bisect_left(order, rest)
            for name in order[max(0, place - 1) : place + 1]:
                shared = common_prefix_tokens(name, rest)
                if shared > most:
                    best, most = node.children[name], shared
        return best, most

    def _below(self, root: Node) -> Iterator[Node]:
        stack = [root]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    # -- changing ----------------------------------------------------------------------------------

    def _name(self, node: Node) -> bytes:
        return node.key[: self._page_bytes]

    def _touch(self, node: Node) -> None:
        self._clock += 1
        node.last_used = self._clock

    def _lock(self, node: Node) -> None:
        step: Node | None = node
        while step is not None:
            if step.locks == 0:
                self._evictable -= len(step.pages)
            step.locks += 1
            step = step.parent

    def _split(self, node: Node, num_pages: int) -> Node:
        """Cut `node` after `num_pages`; returns the new upper part. Handles stay with the lower one."""
        parent = node.parent
        assert parent is not None and 0 < num_pages < len(node.pages), "a run is split inside itself"
        cut = num_pages * self._page_bytes
        upper = Node(parent, node.key[:cut], node.pages[:num_pages])
        upper.locks, upper.last_used, upper.owner = node.locks, node.last_used, node.owner
        parent.children[self._name(node)] = upper  # the same first page: the order stays
        node.parent, node.key, node.pages = upper, node.key[cut:], node.pages[num_pages:]
        upper.add_child(self._name(node), node)
        self._nodes += 1
        return upper

    def _attach(
        self, parent: Node, key: bytes, pages: list[int], owner: str, *, is_tail: bool = False
    ) -> Node:
        """A new child of `parent`, in place of the tail that its key continues."""
        node = Node(parent, key, pages, is_tail=is_tail)
        node.owner = owner
        name = self._name(node)
        self.allocator.share(pages)  # before the tail goes: its page is often the same one, filled further
        if is_tail or not self._seals:
            place = bisect_left(parent.tails, name)
            if place > 0 and name.startswith(parent.tails[place - 1]):
                tail = parent.children[parent.tails[place - 1]]
                _share(node, tail.owner)
                self._let_go(self._drop_child(tail))
        parent.add_child(name, node)
        self._held += len(pages)
        self._evictable += len(pages)
        self._nodes += 1
        self._tails += is_tail
        self._touch(node)
        self._queue.push(node)
        return node

    def _insert_tail(self, parent: Node, rest: bytes, page: int, owner: str) -> Node:
        """The node to lock for `rest`: a new tail, or `parent` where the tree has these tokens already.

        A tail of another page is not locked: its page would be held beside the inserter's own. Nor is any where
        whole pages are sealed: once its owner has filled and sealed the page, the lock would keep it for nobody.
        """
        for order in (parent.tails,) if self._seals else (parent.tails, parent.runs):
            place = bisect_left(order, rest)
            if place < len(order) and order[place].startswith(rest):
                self._touch(parent.children[order[place]])
                _share(parent.children[order[place]], owner)
                return parent
        tail = self._attach(parent, rest, [page], owner, is_tail=True)
        return parent if self._seals else tail

    def _drop_child(self, child: Node) -> list[int]:
        """Take a leaf out of the tree; returns its pages, whose references the caller lets go."""
        assert child.parent is not None and not child.children, "only leaves are dropped"
        child.parent.remove_child(self._name(child))
        self._nodes -= 1
        self._tails -= child.is_tail
        if child.locks:
            self._evictable += len(child.pages)  # undone by `_let_go`: locked pages were not counted
        if len(self._queue) > 2 * self._nodes + _SPARE_QUEUE_ENTRIES:
            self._queue.drop_stale()
        return child.pages

    def _remove_leaf(self, leaf: Node) -> None:
        parent = leaf.parent
        assert parent is not None, "a root is never evicted"
        self._drop_child(leaf)
        parent.last_used = max(parent.last_used, leaf.last_used)
        if parent.last_used == 0:  # over as well, see `expire`
            self._queue.hurry(parent)
        else:
            self._queue.push(parent)
        if parent.parent is None and not parent.children and parent.locks == 0:
            self._forget_root(parent)

    def _let_go(self, pages: list[int]) -> int:
        self._held -= len(pages)
        self._evictable -= len(pages)
        return self.allocator.release(pages)

    def _forget_root(self, root: Node) -> None:
        del self._roots[root.salt]


def _share(node: Node | None, owner: str) -> None:
    """A request of the group `owner` uses the path to `node`; who uses a node uses all above it."""
    while node is not None and node.owner:
        if node.owner != owner:
            node.owner = ""
        node = node.parent
