"""Pages by number, with reference counts. What lies in a page is the pool's business."""

from __future__ import annotations

from collections.abc import Iterable


class OutOfPages(Exception):
    """Fewer pages are free than were asked for; the caller evicts or preempts and tries again."""


class PageAllocator:
    """Hands out the pages `0 .. num_pages - 1`.

    A page is free while nobody refers to it. Holders (the tree, sequences) take a reference each and
    give it back; the last one to do so frees the page.
    """

    __slots__ = ("_free", "_references")

    def __init__(self, num_pages: int) -> None:
        if num_pages < 1:
            raise ValueError(f"num_pages: must be at least 1, not {num_pages}")
        self._references = [0] * num_pages
        self._free = list(range(num_pages - 1, -1, -1))  # a stack: low numbers and warm pages first

    @property
    def num_pages(self) -> int:
        """All pages, free or held."""
        return len(self._references)

    @property
    def num_free(self) -> int:
        """Pages nobody refers to."""
        return len(self._free)

    def allocate(self, count: int) -> list[int]:
        """`count` free pages, each with one reference that belongs to the caller.

        Raises:
            OutOfPages: fewer are free; nothing is taken.
        """
        if count > len(self._free):
            raise OutOfPages(f"{count} pages wanted, {len(self._free)} free")
        if count == 0:
            return []
        pages = self._free[-count:]
        del self._free[-count:]
        pages.reverse()
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
        references, free = self._references, self._free
        before = len(free)
        for page in pages:
            left = references[page] - 1
            assert left >= 0, f"page {page} was released more often than held"
            references[page] = left
            if left == 0:
                free.append(page)
        return len(free) - before

    def references(self, page: int) -> int:
        """How many holders `page` has."""
        return self._references[page]

    def check_integrity(self) -> None:
        """Assert that exactly the pages without a reference are free, each once."""
        free = set(self._free)
        assert len(free) == len(self._free), "a page is free twice"
        unreferenced = {page for page, count in enumerate(self._references) if count == 0}
        assert free == unreferenced, f"free and unreferenced pages differ: {sorted(free ^ unreferenced)[:8]}"
