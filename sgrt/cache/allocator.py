"""Pages by number, with reference counts. What lies in a page is the pool's business."""

from __future__ import annotations

from collections.abc import Iterable


class OutOfPages(Exception):
    """Fewer pages are free than were asked for: a mistake of the caller, who makes room before."""


class PageAllocator:
    """Hands out the pages `0 .. num_pages - 1`, and tail pages behind them.

    Where full pages are sealed, those that sequences still write are of another kind: *tail pages*, numbered
    `num_pages .. num_pages + num_tail_pages - 1`. Else there are none, and a sequence writes into its pages.

    A page is free while nobody refers to it. Holders (the tree, sequences) take a reference each and
    give it back; the last one to do so frees the page.
    """

    __slots__ = ("_free", "_free_tails", "_num_pages", "_references", "num_changes")

    def __init__(self, num_pages: int, num_tail_pages: int = 0) -> None:
        if num_pages < 1:
            raise ValueError(f"num_pages: must be at least 1, not {num_pages}")
        self.num_changes = 0  # pages that were taken or became free, so far
        self._num_pages = num_pages
        self._references = [0] * (num_pages + num_tail_pages)
        # stacks: low numbers and warm pages first
        self._free = list(range(num_pages - 1, -1, -1))
        self._free_tails = list(range(num_pages + num_tail_pages - 1, num_pages - 1, -1))

    @property
    def num_pages(self) -> int:
        """All pages but tail pages, free or held."""
        return self._num_pages

    @property
    def num_tail_pages(self) -> int:
        """All tail pages, free or held."""
        return len(self._references) - self._num_pages

    @property
    def num_free(self) -> int:
        """Pages nobody refers to, tail pages not counted."""
        return len(self._free)

    @property
    def num_free_tails(self) -> int:
        """Tail pages nobody refers to."""
        return len(self._free_tails)

    def allocate(self, count: int) -> list[int]:
        """`count` free pages, each with one reference that belongs to the caller.

        Raises:
            OutOfPages: fewer are free; nothing is taken.
        """
        return self._taken(self._free, count)

    def allocate_tails(self, count: int) -> list[int]:
        """`count` free tail pages, as `allocate`."""
        return self._taken(self._free_tails, count)

    def _taken(self, free: list[int], count: int) -> list[int]:
        if count > len(free):
            raise OutOfPages(f"{count} pages wanted, {len(free)} free")
        if count == 0:
            return []
        pages = free[-count:]
        del free[-count:]
        pages.reverse()
        self.num_changes += count
        for page in pages:
            self._references[page] = 1
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """Take one more reference to each of `pages`, which are held already."""
        references = self._references
        for page in pages:
            assert references[page] > 0, f"page {page} is free and cannot be shared"
            references[page] += 1

    def release(self, pages: Iterable[int]) -> int:
        """Give back one reference to each of `pages`; returns how many became free."""
        references, first_tail = self._references, self._num_pages
        freed = 0
        for page in pages:
            left = references[page] - 1
            assert left >= 0, f"page {page} was released more often than held"
            references[page] = left
            if left == 0:
                (self._free if page < first_tail else self._free_tails).append(page)
                freed += 1
        self.num_changes += freed
        return freed

    def references(self, page: int) -> int:
        """How many holders `page` has."""
        return self._references[page]

    def check_integrity(self) -> None:
        """Assert that exactly the pages without a reference are free, each once."""
        free = {*self._free, *self._free_tails}
        assert len(free) == len(self._free) + len(self._free_tails), "a page is free twice"
        assert all(page < self._num_pages for page in self._free), "a tail page is free among the others"
        unreferenced = {page for page, count in enumerate(self._references) if count == 0}
        assert free == unreferenced, f"free and unreferenced pages differ: {sorted(free ^ unreferenced)[:8]}"
