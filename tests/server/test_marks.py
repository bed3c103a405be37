"""Marks in prompts are found where they are, and quickly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

import sgrt.server.marks as module
from sgrt.server.marks import Marks
from sgrt_frontend.backend import Backend


class Encoder:
    """Spells every mark as these tokens."""

    def __init__(self, tokens: tuple[int, ...]) -> None:
        self.tokens = tokens

    def encode(self, text: str, *, special: bool = False) -> tuple[int, ...]:
        return self.tokens


def last(prompt: Sequence[int], mark: tuple[int, ...]) -> int:
    return Marks(cast("Backend", Encoder(mark))).last_position(tuple(prompt), "mark")


tokens = st.integers(1, 3)


@given(st.lists(tokens, max_size=40), st.lists(tokens, max_size=3), st.integers(0, 2))
def test_a_mark_is_found_where_it_is_for_the_last_time(
    prompt: list[int], mark: list[int], num_blocks: int
) -> None:
    long = prompt + [0] * (num_blocks * module._BLOCK) + prompt[:3]
    places = [
        start
        for start in range(len(long) - len(mark) + 1)
        if mark and long[start : start + len(mark)] == mark
    ]
    assert last(long, tuple(mark)) == max(places, default=-1)


def test_a_mark_across_the_border_of_two_blocks_is_found() -> None:
    for size in range(module._BLOCK - 4, module._BLOCK + 5):
        assert last([*[0] * 7, 1, 2, 1, *[0] * size], (1, 2, 1)) == 7
