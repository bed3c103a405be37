"""Tokens as penalties count them, against a plain count."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from sgrt.engine.seen_tokens import SeenTokens

tokens = st.lists(st.integers(0, 300), max_size=200)


@given(prompt=tokens, output=tokens, drafts=st.lists(st.integers(0, 300), max_size=8))
def test_each_token_is_there_once_with_its_count(
    prompt: list[int], output: list[int], drafts: list[int]
) -> None:
    seen = SeenTokens(prompt)
    for token in output:
        seen.take(token)
    for ahead in ((), drafts):
        expected = dict.fromkeys(prompt, 0) | Counter([*output, *ahead])
        found, counts = seen.entries(ahead)
        assert len(found) == len(expected)
        assert dict(zip(found.tolist(), counts.tolist(), strict=True)) == expected
