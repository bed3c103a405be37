"""A pool whose pages hold token ids instead of keys and values."""

from __future__ import annotations

from collections.abc import Sequence

from sgrt.cache.allocator import PageAllocator
from sgrt.cache.prefix_handle import PrefixHandle
from sgrt.cache.radix import RadixTree, pack_tokens


class TokenPool:
    """An allocator, a tree, and pages that remember which tokens were computed into them."""

    def __init__(self, num_pages: int, page_tokens: int) -> None:
        self.page_tokens = page_tokens
        self.allocator = PageAllocator(num_pages)
        self.tree = RadixTree(self.allocator, page_tokens=page_tokens)
        self.contents: list[list[int]] = [[] for _ in range(num_pages)]

    def pages_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.page_tokens)

    def write(self, pages: Sequence[int], start: int, tokens: Sequence[int]) -> None:
        for position, token in enumerate(tokens, start):
            page, offset = pages[position // self.page_tokens], position % self.page_tokens
            del self.contents[page][offset:]
            self.contents[page].append(token)

    def read(self, handle: PrefixHandle) -> list[int]:
        tokens = [token for page in handle.pages for token in self.contents[page]]
        if handle.partial is not None:
            tokens += self.contents[handle.partial.page][: handle.partial.num_tokens]
        return tokens

    def compute(self, tokens: Sequence[int], salt: str = "") -> None:
        """Put `tokens` into the tree as a finished sequence would, without reuse."""
        pages = self.allocator.allocate(self.pages_for(len(tokens)))
        self.write(pages, 0, tokens)
        self.tree.insert(pack_tokens(tokens), pages, salt=salt).close()
        self.allocator.release(pages)

    def matched(self, tokens: Sequence[int], salt: str = "") -> int:
        """Tokens a match finds; checks that the pages hold exactly these tokens."""
        with self.tree.match(pack_tokens(tokens), salt=salt) as handle:
            assert self.read(handle) == list(tokens[: handle.num_tokens])
            return handle.num_tokens

    def check(self) -> None:
        self.allocator.check_integrity()
        self.tree.check_integrity()
