"""The radix tree against texts written out by hand and against a set of all prefixes."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from token_pool import TokenPool

from sgrt.cache.allocator import PageAllocator
from sgrt.cache.prefix_handle import PrefixHandle
from sgrt.cache.radix import RadixTree, common_prefix_tokens, pack_tokens


@pytest.mark.parametrize(
    ("left", "right", "shared"),
    [([], [1], 0), ([1, 2], [1, 2], 2), ([1, 2, 3], [1, 2], 2), ([256], [512], 0), ([7, 65536], [7, 1], 1)],
)
def test_common_prefixes_are_counted_in_tokens(left: list[int], right: list[int], shared: int) -> None:
    assert common_prefix_tokens(pack_tokens(left), pack_tokens(right)) == shared


def test_an_unknown_text_matches_nothing(pool: TokenPool) -> None:
    assert pool.matched([1, 2, 3]) == 0
    pool.check()


def test_a_known_text_matches_whole(pool: TokenPool) -> None:
    pool.compute(range(8))
    assert pool.matched(range(8)) == 8
    assert pool.matched(range(12)) == 8


def test_a_tail_page_matches_to_the_token(pool: TokenPool) -> None:
    pool.compute(range(6))
    with pool.tree.match(pack_tokens(range(12))) as handle:
        assert len(handle.pages) == 1
        assert handle.partial is not None and handle.partial.num_tokens == 2
    pool.check()


def test_texts_that_part_inside_a_page_share_up_to_the_token(pool: TokenPool) -> None:
    pool.compute([1, 2, 3, 4, 5, 6, 7, 8])
    assert pool.matched([1, 2, 3, 4, 5, 6, 9, 9, 9]) == 6
    assert pool.matched([1, 2, 9]) == 2


def test_of_many_branches_the_longest_is_found(pool: TokenPool) -> None:
    for last in range(10):
        pool.compute([1, 2, 3, 4, 5, last, last])
    for last in range(10):
        assert pool.matched([1, 2, 3, 4, 5, last, last, 99]) == 7
    assert pool.matched([1, 2, 3, 4, 5, 77]) == 5


def test_a_longer_text_replaces_the_tail_it_continues(pool: TokenPool) -> None:
    pool.compute(range(6))
    pool.compute(range(7))
    pool.compute(range(10))
    pool.check()
    assert pool.tree.num_pages == 3
    assert pool.matched(range(20)) == 10


def test_a_shorter_text_adds_nothing(pool: TokenPool) -> None:
    pool.compute(range(10))
    pool.compute(range(7))
    assert pool.tree.num_pages == 3
    pool.check()


def test_salts_never_meet(pool: TokenPool) -> None:
    pool.compute(range(8), salt="a")
    assert pool.matched(range(8), salt="b") == 0
    assert pool.matched(range(8), salt="a") == 8


def test_the_least_recently_used_leaf_goes_first(pool: TokenPool) -> None:
    for first in (1, 2, 3):
        pool.compute([first] * 8)
    pool.matched([1] * 8)
    assert pool.tree.evict(4) == 4
    assert [pool.matched([first] * 8) for first in (1, 2, 3)] == [8, 0, 0]
    pool.check()


def test_eviction_takes_the_end_of_a_run_and_no_more_than_asked(pool: TokenPool) -> None:
    pool.compute(range(40))
    assert pool.tree.evict(3) == 3
    assert pool.matched(range(40)) == 28
    pool.check()


def test_a_salt_is_forgotten_but_for_what_is_locked(pool: TokenPool) -> None:
    pool.compute(range(10))
    for tokens in (range(30), [*range(12), 99, 98], [7, 7]):
        pool.compute(tokens, salt="gone")
    handle = pool.tree.match(pack_tokens([*range(8), 50]), salt="gone")
    assert pool.tree.forget("gone") == 6 + 1 + 1
    assert pool.matched(range(30), salt="gone") == 8
    pool.check()
    handle.close()
    assert pool.tree.forget("gone") == 2
    assert pool.tree.forget("gone") == pool.tree.forget("never there") == 0
    assert pool.matched(range(10)) == 10
    pool.check()


def test_a_locked_half_of_a_run_survives_and_is_free_afterwards(pool: TokenPool) -> None:
    pool.compute(range(32))
    handle = pool.tree.match(pack_tokens([*range(16), 99]))
    assert pool.tree.num_evictable_pages == 4
    assert pool.tree.evict(64) == 4
    assert pool.read(handle) == list(range(16))
    handle.close()
    assert pool.tree.evict(64) == 4
    assert pool.allocator.num_free == 64
    pool.check()


def test_a_handle_stays_right_when_its_run_is_split(pool: TokenPool) -> None:
    pool.compute(range(32))
    with pool.tree.match(pack_tokens(range(32))) as handle:
        pool.compute([*range(8), 99, 99, 99, 99])
        pool.check()
        assert pool.tree.evict(64) == 1
        assert pool.read(handle) == list(range(32))
    pool.check()


def test_a_partial_page_stays_readable_after_eviction(pool: TokenPool) -> None:
    pool.compute(range(3))
    handle = pool.tree.match(pack_tokens(range(4)))
    assert pool.tree.evict(1) == 0
    assert pool.read(handle) == [0, 1, 2]
    handle.close()
    assert pool.allocator.num_free == 64
    pool.check()


def test_a_growing_sequence_locks_what_it_inserted(pool: TokenPool) -> None:
    pages = pool.allocator.allocate(3)
    first = pool.tree.insert(pack_tokens(range(6)), pages[:2])
    assert pool.tree.num_evictable_pages == 0
    second = pool.tree.insert(pack_tokens(range(11)), pages)
    first.close()
    pool.check()
    assert pool.tree.num_evictable_pages == 0
    second.close()
    pool.allocator.release(pages)
    assert pool.tree.num_evictable_pages == 3
    pool.check()


def test_closing_a_handle_twice_is_harmless(pool: TokenPool) -> None:
    pool.compute(range(8))
    handle = pool.tree.match(pack_tokens(range(8)))
    handle.close()
    handle.close()
    assert handle.is_closed
    pool.check()


def test_peeking_finds_what_matching_finds_and_changes_nothing(pool: TokenPool) -> None:
    pool.compute(range(11))
    pool.compute([*range(9), 50, 51])
    texts: list[Sequence[int]] = [range(20), [*range(9), 50, 7], [*range(5), 3], [], [9]]
    for text in texts:
        peeked = pool.tree.peek(pack_tokens(text))
        assert peeked == pool.matched(text)


_TOKENS = st.lists(st.integers(0, 2), min_size=0, max_size=14)
_SALTS = st.sampled_from(["", "tenant"])


class _TreeMachine(RuleBasedStateMachine):
    """Random finished texts, running matches, evictions, against the set of all prefixes ever computed."""

    handles: Bundle[tuple[PrefixHandle, list[int]]] = Bundle("handles")

    @initialize(page_tokens=st.integers(1, 5), num_pages=st.sampled_from([6, 40]))
    def start(self, page_tokens: int, num_pages: int) -> None:
        self.allocator = PageAllocator(num_pages)
        self.tree = RadixTree(self.allocator, page_tokens=page_tokens)
        self.page_tokens = page_tokens
        self.contents: list[list[int]] = [[] for _ in range(num_pages)]
        self.prefixes: set[tuple[str, tuple[int, ...]]] = set()
        self.has_evicted = False
        self.running: list[PrefixHandle] = []

    def _tokens(self, handle: PrefixHandle) -> list[int]:
        tokens = [token for page in handle.pages for token in self.contents[page]]
        if handle.partial is not None:
            tokens += self.contents[handle.partial.page][: handle.partial.num_tokens]
        return tokens

    def _expected(self, tokens: list[int], salt: str) -> int:
        return max(
            (n for n in range(len(tokens) + 1) if n == 0 or (salt, tuple(tokens[:n])) in self.prefixes),
            default=0,
        )

    @rule(tokens=_TOKENS, salt=_SALTS)
    def compute(self, tokens: list[int], salt: str) -> None:
        """A sequence that reuses what it can, computes the rest and finishes."""
        with self.tree.match(pack_tokens(tokens), salt=salt) as handle:
            needed = -(-len(tokens) // self.page_tokens) - len(handle.pages)
            if needed > self.allocator.num_free:
                self.has_evicted = True
                self.tree.evict(needed - self.allocator.num_free)
            if needed > self.allocator.num_free:
                return
            shared = list(handle.pages)
            self.allocator.share(shared)
            pages = shared + self.allocator.allocate(needed)
            for page in pages[len(shared) :]:
                self.contents[page] = []
            for position in range(len(shared) * self.page_tokens, len(tokens)):
                self.contents[pages[position // self.page_tokens]].append(tokens[position])
            self.tree.insert(pack_tokens(tokens), pages, salt=salt).close()
            self.allocator.release(pages)
        self.prefixes |= {(salt, tuple(tokens[:n])) for n in range(1, len(tokens) + 1)}

    @rule(target=handles, tokens=_TOKENS, salt=_SALTS)
    def match(self, tokens: list[int], salt: str) -> tuple[PrefixHandle, list[int]]:
        peeked = self.tree.peek(pack_tokens(tokens), salt=salt)
        handle = self.tree.match(pack_tokens(tokens), salt=salt)
        expected = self._expected(tokens, salt)
        assert handle.num_tokens == peeked
        assert handle.num_tokens <= expected if self.has_evicted else handle.num_tokens == expected
        assert self._tokens(handle) == tokens[: handle.num_tokens]
        self.running.append(handle)
        return handle, tokens

    @rule(running=consumes(handles))
    def close(self, running: tuple[PrefixHandle, list[int]]) -> None:
        handle, tokens = running
        assert self._tokens(handle) == tokens[: handle.num_tokens], "a locked prefix changed"
        handle.close()
        self.running.remove(handle)

    @rule(count=st.integers(0, 8))
    def evict(self, count: int) -> None:
        evictable, free = self.tree.num_evictable_pages, self.allocator.num_free
        freed = self.tree.evict(count)
        self.has_evicted |= count > 0
        partials = sum(1 for handle in self.running if handle.partial is not None)
        assert self.allocator.num_free == free + freed
        assert min(count, evictable) - partials <= freed <= count

    @invariant()
    def books_balance(self) -> None:
        self.allocator.check_integrity()
        self.tree.check_integrity()
        held = set(self.tree.held_pages()) | {h.partial.page for h in self.running if h.partial is not None}
        assert self.allocator.num_free + len(held) == self.allocator.num_pages

    def teardown(self) -> None:
        for handle in self.running:
            handle.close()
        self.tree.evict(self.allocator.num_pages)
        assert self.allocator.num_free == self.allocator.num_pages
        assert self.tree.num_pages == 0


TestTreeMachine = _TreeMachine.TestCase
TestTreeMachine.settings = settings(max_examples=120, stateful_step_count=30, deadline=None)


def _sealing_pool(num_pages: int = 16, num_tail_pages: int = 8) -> tuple[PageAllocator, RadixTree]:
    allocator = PageAllocator(num_pages, num_tail_pages)
    return allocator, RadixTree(allocator, page_tokens=4)


def _finish(allocator: PageAllocator, tree: RadixTree, tokens: Sequence[int]) -> None:
    """Put `tokens` into a tree over sealed pages, as a finished sequence would."""
    pages = allocator.allocate(len(tokens) // 4)
    tails = allocator.allocate_tails(1 if len(tokens) % 4 else 0)
    tree.insert(pack_tokens(tokens), [*pages, *tails]).close()
    allocator.release([*pages, *tails])
    allocator.check_integrity()
    tree.check_integrity()


def test_a_sealed_page_matches_whole_or_not_at_all() -> None:
    allocator, tree = _sealing_pool()
    _finish(allocator, tree, range(12))
    for length, matched in ((7, 4), (8, 8), (11, 8), (12, 12)):
        assert tree.peek(pack_tokens(range(length))) == matched
        with tree.match(pack_tokens(range(length))) as handle:
            assert handle.num_tokens == matched
            assert handle.partial is None


def test_a_tail_stays_beside_the_sealed_page_that_continues_it() -> None:
    allocator, tree = _sealing_pool()
    _finish(allocator, tree, range(6))
    _finish(allocator, tree, range(9))
    assert tree.num_pages == 2
    with tree.match(pack_tokens([0, 1, 2, 3, 4, 5, 99])) as handle:
        assert handle.num_tokens == 6
        assert handle.partial is not None
        assert handle.partial.page >= allocator.num_pages
    tree.check_integrity()


def test_evicting_pages_takes_the_tails_on_the_way_and_tails_can_go_alone() -> None:
    allocator, tree = _sealing_pool()
    _finish(allocator, tree, range(6))
    _finish(allocator, tree, [*range(4), 7])
    assert tree.evict_tails(1) == 1
    assert tree.peek(pack_tokens(range(6))) == 4
    assert tree.num_evictable_pages == 1
    assert tree.evict(1) == 1
    assert (allocator.num_free, allocator.num_free_tails) == (16, 8)
    tree.check_integrity()


def test_no_lock_keeps_a_tail_whose_owner_went_on() -> None:
    allocator, tree = _sealing_pool()
    (page,), (tail,) = allocator.allocate(1), allocator.allocate_tails(1)
    handle = tree.insert(pack_tokens(range(6)), [page, tail])
    allocator.release([tail])  # the owner has sealed it
    assert tree.evict_tails(1) == 1
    handle.close()
    allocator.release([page])
    tree.check_integrity()


def test_matching_inserting_and_evicting_stay_cheap() -> None:
    page_tokens, shared, length = 32, 2048, 2560
    allocator = PageAllocator(20_000)
    tree = RadixTree(allocator, page_tokens=page_tokens)
    texts = [[*range(shared), *range(10_000 * n, 10_000 * n + length - shared)] for n in range(1, 1101)]
    keys = [pack_tokens(text) for text in texts]

    def serve(key: bytes) -> float:
        start = time.perf_counter()
        with tree.match(key) as handle:
            fresh = length // page_tokens - len(handle.pages)
            if fresh > allocator.num_free:
                tree.evict(fresh)
            allocator.share(handle.pages)
            pages = handle.pages + allocator.allocate(fresh)
            tree.insert(key, pages).close()
        allocator.release(pages)
        return time.perf_counter() - start

    for key in keys[:1000]:
        serve(key)
    allocator.allocate(allocator.num_free)  # from here on every text has to evict another one
    seconds = sorted(serve(key) for key in keys[1000:])
    assert seconds[len(seconds) // 2] < 1e-3, "ten times the cost on a quiet machine"
