"""Which sequence holds which pages, and what of them the radix tree remembers.

Without sealing a sequence writes into its pages, and they are what others share. With sealing it writes into exact
*tail pages*, and each page of tokens is sealed into a page of its own when it fills:

        pages       [ sealed 0 | sealed 1 | (2) ]        (2): sealed with drafts that were not taken; sealed again
        tail pages             first_tail -> [ exact 2 ]      when its tokens are settled

A tail page is given back once the tokens of its page are settled; a page before `first_tail` never changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from sgrt.cache.allocator import PageAllocator
from sgrt.cache.prefix_handle import PrefixHandle
from sgrt.cache.radix import RadixTree
from sgrt.config import Limits
from sgrt.engine.keeping import KeptPrefixes
from sgrt.engine.sequence import Sequence
from sgrt.engine.stats import EngineStats


class PageBook:
    """The only one who moves pages between sequences, the allocator and the tree."""

    __slots__ = ("_page_tokens", "_seals", "_stats", "allocator", "kept", "tree")

    def __init__(self, limits: Limits, stats: EngineStats) -> None:
        self._page_tokens = limits.page_tokens
        self._seals = limits.num_tail_pages > 0
        self._stats = stats
        self.allocator = PageAllocator(limits.num_pages, limits.num_tail_pages)
        self.tree = RadixTree(self.allocator, page_tokens=limits.page_tokens)
        self.kept = KeptPrefixes(self.tree)

    def match(self, sequence: Sequence) -> PrefixHandle:
        """What the tree has of the prompt of `sequence`, locked."""
        request = sequence.request
        key = sequence.key(sequence.num_reusable)
        return self.tree.match(key, salt=request.cache_salt, owner=request.group)

    def take_prefix(self, sequence: Sequence, handle: PrefixHandle) -> None:
        """Start `sequence` with the whole pages of its cached prefix."""
        sequence.handle = handle
        sequence.pages = list(handle.pages)
        sequence.first_tail = len(handle.pages)
        self.allocator.share(sequence.pages)

    def written_page(self, sequence: Sequence, index: int) -> int:
        """The page into which `sequence` writes the tokens of its page number `index`."""
        return sequence.tails[index - sequence.first_tail] if self._seals else sequence.pages[index]

    def find_room(self, num_pages: int) -> bool:
        """Whether `num_pages` are free or evictable; prefixes kept for others are given up where that makes room."""
        missing = num_pages - self.allocator.num_free - self.tree.num_evictable_pages
        if missing > 0 and missing > self.kept.num_pages:
            return False  # they are not given up for nothing
        room = num_pages - self.allocator.num_free
        while self.tree.num_evictable_pages < room:
            if not self.kept.drop_one():
                return False
        return True

    def grow(self, sequence: Sequence, end: int) -> bool:
        """Give `sequence` pages for its first `end` tokens, evicting cache; False when there are too few."""
        begun = -(-end // self._page_tokens)
        full = end // self._page_tokens if self._seals else begun
        if not self._seals and begun <= len(sequence.pages):
            return True  # as in most steps
        pages = max(0, full - len(sequence.pages))
        tails = max(0, begun - sequence.first_tail - len(sequence.tails)) if self._seals else 0
        if not (self._has_free(pages) and self._has_free_tails(tails)):
            return False
        if pages:
            sequence.pages += self.allocator.allocate(pages)
        if tails:
            sequence.tails += self.allocator.allocate_tails(tails)
        return True

    def keep_up(self, sequence: Sequence, *, has_drafts: bool) -> None:
        """More of `sequence` is computed: give back tail pages whose tokens are sealed for good.

        Without drafts whose fate is open also those behind the last computed token.
        """
        if not self._seals:
            return
        sealed = sequence.num_computed // self._page_tokens - sequence.first_tail
        self.allocator.release(sequence.tails[:sealed])
        del sequence.tails[:sealed]
        sequence.first_tail += sealed
        if not has_drafts:
            begun = 1 if sequence.num_computed % self._page_tokens else 0
            self.allocator.release(sequence.tails[begun:])
            del sequence.tails[begun:]

    def remember(self, sequence: Sequence) -> None:
        """Put what is computed into the tree, for others to share while this sequence goes on.

        Where the tree has the same tokens in pages of its own, those are taken over, so that a locked
        path never holds pages beside the sequence's.
        """
        computed = sequence.num_computed
        pages = sequence.pages
        if self._seals:
            pages = pages[: computed // self._page_tokens] + sequence.tails[:1]
        request = sequence.request
        handle = self.tree.insert(sequence.key(computed), pages, salt=request.cache_salt, owner=request.group)
        mine = sequence.pages[: len(handle.pages)]
        if mine != handle.pages:
            self.allocator.share(handle.pages)
            self.allocator.release(mine)
            sequence.pages[: len(handle.pages)] = handle.pages
        if sequence.handle is not None:
            sequence.handle.close()
        sequence.handle = handle

    def give_back(self, sequence: Sequence, *, is_over: bool = False) -> None:
        """Take all pages from `sequence` and unlock its prefix; when it is over, keep what others will share."""
        assert sequence.handle is not None, "a running sequence has a prefix"
        if is_over:
            self.kept.keep(sequence)
        sequence.handle.close()
        request = sequence.request
        if is_over and request.group:
            self.tree.expire(
                sequence.key(sequence.num_computed), salt=request.cache_salt, owner=request.group
            )
        self.allocator.release(sequence.pages)
        self.allocator.release(sequence.tails)
        sequence.handle, sequence.pages, sequence.tails = None, [], []
        sequence.num_computed = sequence.first_tail = 0

    def flush(self) -> int:
        """Evict everything no sequence uses; returns the pages freed, tail pages not counted."""
        self.kept.clear()
        freed = self.tree.evict(self.allocator.num_pages)
        self.tree.evict_tails(self.allocator.num_tail_pages)
        return freed

    def check_integrity(self, running: Iterable[Sequence]) -> None:
        """Assert that every page is accounted for by the tree, the sequences and their handles."""
        self.allocator.check_integrity()
        self.tree.check_integrity()
        holders = [0] * (self.allocator.num_pages + self.allocator.num_tail_pages)
        for page in self.tree.held_pages():
            holders[page] += 1
        for sequence in running:
            self._check_sequence(sequence)
            for page in (*sequence.pages, *sequence.tails):
                holders[page] += 1
            if sequence.handle is not None and sequence.handle.partial is not None:
                holders[sequence.handle.partial.page] += 1
        for page, count in enumerate(holders):
            assert self.allocator.references(page) == count, (
                f"page {page}: {self.allocator.references(page)} references, {count} holders"
            )

    def _has_free(self, count: int) -> bool:
        while (missing := count - self.allocator.num_free) > 0:
            freed = self.tree.evict(missing)
            self._stats.evicted_pages += freed
            if freed < missing and not self.kept.drop_one():
                break
        return count <= self.allocator.num_free

    def _has_free_tails(self, count: int) -> bool:
        missing = count - self.allocator.num_free_tails
        if missing > 0:
            self.tree.evict_tails(missing)
        return count <= self.allocator.num_free_tails

    def _check_sequence(self, sequence: Sequence) -> None:
        assert sequence.handle is not None and not sequence.handle.is_closed, "a sequence lost its prefix"
        assert len(set(sequence.pages)) == len(sequence.pages), "a sequence has a page twice"
        begun = -(-sequence.num_computed // self._page_tokens)
        if not self._seals:
            assert begun <= len(sequence.pages), "pages are missing"
            return
        sealed = sequence.num_computed // self._page_tokens
        assert sealed <= len(sequence.pages), "sealed pages are missing"
        assert sequence.first_tail == sealed, "tail pages of sealed tokens are kept"
        assert begun <= sequence.first_tail + len(sequence.tails), "tail pages are missing"
        assert all(page >= self.allocator.num_pages for page in sequence.tails), "a tail page is none"
        assert all(page < self.allocator.num_pages for page in sequence.pages), "a sealed page is none"
