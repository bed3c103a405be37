"""Text that grows: stop strings are found wherever tokens cut them, and nothing of them is shown."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from sgrt.engine.output_text import OutputText


class Pieces:
    """A decoder whose tokens are given pieces of text."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = pieces

    def feed(self, token_ids: Sequence[int]) -> str:
        return "".join(self._pieces[token] for token in token_ids)


def shown(
    pieces: Sequence[str], stops: Sequence[str], *, includes_stop: bool = False
) -> tuple[list[str], str | None]:
    text = OutputText(Pieces(pieces), stops=tuple(stops), includes_stop=includes_stop)
    parts = []
    for token in range(len(pieces)):
        parts.append(text.feed([token]))
        if text.stop is not None:
            break
    return [*parts, text.finish()], text.stop


def by_character(whole: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """The definition: read character by character until a stop string is complete."""
    for end in range(1, len(whole) + 1):
        found = [stop for stop in stops if whole[:end].endswith(stop)]
        if found:
            longest = max(found, key=len)
            return whole[: end - len(longest)], longest
    return whole, None


def test_text_that_may_become_a_stop_string_is_held_back() -> None:
    parts, stop = shown(["ab", "c", "de", "fg", "hi"], ["cdef"])
    assert (parts, stop) == (["ab", "", "", "", ""], "cdef")


def test_held_text_comes_out_when_it_is_no_stop_string_after_all() -> None:
    parts, stop = shown(["ab", "c", "d", "x"], ["cdef"])
    assert (parts, stop) == (["ab", "", "", "cdx", ""], None)


def test_held_text_comes_out_at_the_end() -> None:
    assert shown(["abc"], ["cd"]) == (["ab", "c"], None)


_LETTERS = st.text("ab", min_size=1, max_size=4)


@given(st.lists(_LETTERS, max_size=8), st.lists(_LETTERS, min_size=1, max_size=3), st.booleans())
def test_the_result_does_not_depend_on_how_the_text_is_cut(
    pieces: list[str], stops: list[str], includes_stop: bool
) -> None:
    expected, expected_stop = by_character("".join(pieces), stops)
    parts, stop = shown(pieces, stops, includes_stop=includes_stop)
    assert stop == expected_stop
    assert "".join(parts) == expected + (stop or "" if includes_stop else "")


@given(st.lists(_LETTERS, max_size=8), st.lists(_LETTERS, min_size=1, max_size=3))
def test_what_was_shown_is_never_taken_back(pieces: list[str], stops: list[str]) -> None:
    expected, _ = by_character("".join(pieces), stops)
    parts, _ = shown(pieces, stops)
    for count in range(len(parts) + 1):
        assert expected.startswith("".join(parts[:count]))
