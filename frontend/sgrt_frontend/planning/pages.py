"""Pages on paper: how much of each part of a use tree is computed or about to be, and how many pages that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sgrt_frontend.planning.tree import PlanTree, Tokens


class Stretch:
    """A part's tokens as they are computed. `uses` counts the calls that still need it.

    Pages: those it fills or a prompt that runs will fill, and that of its end while nothing goes on from there. Where it
    begins inside a page, that page is one of its own: what stands before was copied, or goes on in place.
    """

    __slots__ = (
        "busy",
        "claimed",
        "filled",
        "is_live",
        "is_own",
        "num_pages",
        "parent",
        "size",
        "start",
        "uses",
    )

    def __init__(self, parent: Stretch | None, size: int, uses: int) -> None:
        self.parent = parent
        self.start: int = parent.end if parent is not None else 0
        self.size = size
        self.uses = uses
        self.filled = 0
        self.claimed = 0  # what is computed when the prompts that run are
        self.busy = 0  # live stretches right behind this one
        self.num_pages = 0
        self.is_live = False  # something of it, or behind it, is computed and needed
        self.is_own = False  # an output that no other call goes on from

    @property
    def end(self) -> int:
        """The position behind the last token."""
        return self.start + self.size

    @property
    def held(self) -> int:
        """Tokens that have pages, or are promised some."""
        return max(self.filled, self.claimed)


class PageCount:
    """Counts pages over time: `in_use` now, `peak` at most. Sequences fill stretches; ended calls give them back."""

    def __init__(self, tree: PlanTree, size: Callable[[Tokens], int], *, page_tokens: int) -> None:
        self.peak = 0
        self.in_use = 0
        self._tree = tree
        self._size = size
        self._page_tokens = page_tokens
        self._stretches: dict[int, Stretch] = {}
        for part in tree.parts():
            parent = self._stretches.get(id(part.parent))
            self._stretches[id(part)] = Stretch(parent, size(part.tokens), part.uses)

    def path(self, tokens: Tokens) -> list[Stretch]:
        """The stretches of a call."""
        return [self._stretches[id(part)] for part in self._tree.path(tokens)]

    def own(self, prompt: Tokens, output: int) -> list[Stretch]:
        """The stretches of a prompt, and one more for an output that nobody else uses."""
        kept = self.path(prompt)
        made = Stretch(kept[-1] if kept else None, output, 1)
        made.is_own = True
        return [*kept, made]

    def cached(self, path: Sequence[Stretch], prompt: int, least: int) -> tuple[int, bool]:
        """How much of a prompt is computed, and whether at least so much more of it is on its way."""
        found = coming = 0
        for stretch in path:
            if stretch.start >= prompt:
                break
            if coming == 0:
                found = stretch.start + stretch.filled
            if stretch.filled < stretch.size:
                if stretch.claimed <= stretch.filled:
                    break
                coming += min(stretch.start + stretch.claimed, prompt - 1) - stretch.start - stretch.filled
                if stretch.claimed < stretch.size:
                    break
        return min(found, prompt), coming >= least

    def claim(self, path: Sequence[Stretch], prompt: int) -> None:
        """A prompt begins that will compute all of these: the pages are its own from now on."""
        for stretch in path:
            claimed = min(stretch.end, prompt) - stretch.start
            if claimed > stretch.held:
                stretch.claimed = claimed
                self._refresh(stretch)

    def fill(self, path: Sequence[Stretch], begin: int, end: int) -> None:
        """Tokens from one position to another are computed."""
        for stretch in path:
            if stretch.start >= end:
                break
            if stretch.end > begin:
                filled = min(end, stretch.end) - stretch.start
                if filled > stretch.filled:
                    stretch.filled = filled
                    self._refresh(stretch)

    def end(self, tokens: Tokens) -> None:
        """A call is over: what no other needs is free."""
        for stretch in reversed(self.path(tokens)):
            stretch.uses -= 1
            if stretch.uses == 0:
                self._refresh(stretch)

    def end_own(self, path: Sequence[Stretch]) -> None:
        """An output is over; what only it used is free."""
        if path and path[-1].is_own:
            path[-1].uses = 0
            self._refresh(path[-1])

    def measure(self) -> None:
        """Note how many pages are in use now."""
        self.peak = max(self.peak, self.in_use)

    def _refresh(self, stretch: Stretch) -> None:
        was_live = stretch.is_live
        stretch.is_live = stretch.uses > 0 and (stretch.held > 0 or stretch.busy > 0)
        pages = self._pages(stretch)
        self.in_use += pages - stretch.num_pages
        stretch.num_pages = pages
        parent = stretch.parent
        if parent is not None and was_live != stretch.is_live:
            parent.busy += 1 if stretch.is_live else -1
            self._refresh(parent)

    def _pages(self, stretch: Stretch) -> int:
        if not stretch.is_live:
            return 0
        first = stretch.start // self._page_tokens
        if stretch.held == stretch.size and stretch.busy:
            return stretch.end // self._page_tokens - first
        return -(-(stretch.start + stretch.held) // self._page_tokens) - first
