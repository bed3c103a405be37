"""How long a match of a regular expression can be."""

from __future__ import annotations

import pytest

from sgrt_frontend.planning.regex_width import longest_match_bytes


@pytest.mark.parametrize(
    ("pattern", "longest"),
    [
        ("[A-C]-[0-9]{5}", 7),
        ("abc|de", 3),
        ("(?:ab){2,3}c?", 7),
        ("a{2}", 2),
        (r"\d{2}", 8),
        (r"\.\[", 2),
        ("[^a]", 4),
        ("é", 2),
        ("a*", None),
        ("a+b", None),
        ("a{2,}", None),
        (r"(?=a)b", None),
        (r"(a)\1", None),
        ("", 0),
    ],
)
def test_the_longest_match_of_a_regular_expression(pattern: str, longest: int | None) -> None:
    assert longest_match_bytes(pattern) == longest
