"""The page allocator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgrt.cache.allocator import OutOfPages, PageAllocator


def test_every_page_is_handed_out_once() -> None:
    allocator = PageAllocator(5)
    assert sorted(allocator.allocate(2) + allocator.allocate(3)) == [0, 1, 2, 3, 4]
    assert allocator.num_free == 0


def test_asking_for_too_much_takes_nothing() -> None:
    allocator = PageAllocator(3)
    allocator.allocate(1)
    with pytest.raises(OutOfPages, match="3 pages wanted, 2 free"):
        allocator.allocate(3)
    assert allocator.num_free == 2


def test_a_shared_page_is_freed_by_its_last_holder() -> None:
    allocator = PageAllocator(1)
    pages = allocator.allocate(1)
    allocator.share(pages)
    assert allocator.release(pages) == 0
    assert allocator.release(pages) == 1


def test_releasing_a_free_page_is_an_error() -> None:
    with pytest.raises(AssertionError, match="released more often"):
        PageAllocator(1).release([0])


def test_tail_pages_are_numbered_behind_the_others_and_never_mixed_with_them() -> None:
    allocator = PageAllocator(3, 2)
    tails, pages = allocator.allocate_tails(2), allocator.allocate(3)
    assert (tails, pages) == ([3, 4], [0, 1, 2])
    with pytest.raises(OutOfPages):
        allocator.allocate_tails(1)
    assert allocator.release([4, 1]) == 2
    assert (allocator.num_free, allocator.num_free_tails) == (1, 1)
    assert (allocator.allocate(1), allocator.allocate_tails(1)) == ([1], [4])
    allocator.check_integrity()


def test_an_empty_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="num_pages"):
        PageAllocator(0)


@given(st.lists(st.tuples(st.sampled_from(["allocate", "share", "release"]), st.integers(0, 5)), max_size=60))
def test_counts_agree_with_a_list_of_holders(steps: list[tuple[str, int]]) -> None:
    allocator = PageAllocator(8)
    holders: list[int] = []
    for action, number in steps:
        if action == "allocate":
            if number <= allocator.num_free:
                holders += allocator.allocate(number)
            else:
                with pytest.raises(OutOfPages):
                    allocator.allocate(number)
        elif holders:
            page = holders[number % len(holders)]
            if action == "share":
                allocator.share([page])
                holders.append(page)
            else:
                holders.remove(page)
                assert allocator.release([page]) == int(page not in holders)
        allocator.check_integrity()
        assert [allocator.references(page) for page in range(8)] == [holders.count(page) for page in range(8)]
        assert allocator.num_free + len(set(holders)) == allocator.num_pages
