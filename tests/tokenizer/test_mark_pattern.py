"""Finding special tokens: the same as trying every one of them, longest first."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from sgrt.tokenizer.mark_pattern import mark_pattern

PIECES = st.text(alphabet="<a|>.", max_size=5)


@given(st.lists(PIECES, max_size=12), st.lists(PIECES, max_size=8).map("".join))
def test_the_longest_spelling_is_found_wherever_one_stands(spellings: list[str], text: str) -> None:
    ordered = sorted(filter(None, spellings), key=len, reverse=True)
    expected = re.findall("|".join(map(re.escape, ordered)), text) if ordered else []
    assert mark_pattern(spellings).findall(text) == expected
