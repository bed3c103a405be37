"""The dialect of a schema's `pattern`: ECMA-262 with `u`, searched."""

from __future__ import annotations

import pytest

from sgrt_grammars.constraint import RegexDialect
from sgrt_grammars.errors import InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.regex.compile import pattern_language
from sgrt_grammars.regex.language import contains


def _matches(pattern: str, text: str) -> bool:
    return contains(
        pattern_language(pattern, RegexDialect.ECMA, is_full=False, pointer="/pattern", keyword="pattern"),
        text,
    )


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("b", ["abc", "b"], ["ac", ""]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        (r"^\d+$", ["09"], ["९", "1\n"]),
        (r"^\w$", ["a", "_"], ["é"]),
        (r"^\s$", ["\ufeff", "\u00a0", "\u2028"], ["\u200b", "\x85"]),
        ("^.$", ["é", "🎉"], ["\n", "\u2028", "\r"]),
        (r"^\u00e9\u{1F389}$", ["é🎉"], ["e🎉"]),
        (r"^\ud83c\udf89$", ["🎉"], ["🎊"]),
        (r"^\p{Lu}\p{L}*\P{L}$", ["Été!"], ["été!", "Été"]),
        (r"^[\p{Nd}\-]+$", ["1-٣"], ["a"]),
        (r"^(?<year>\d{4})-\cJ$", ["2024-\n"], ["2024-J"]),
        (r"^(?!\.$)[0-9]*\.?[0-9]+$", ["2.50", "7"], [".", "1.2.3"]),
        (r"^(?=.*[0-9])[a-z0-9]+$", ["a1"], ["a", "1A"]),
        (r"^a\b.b$", ["a b"], ["aab"]),
        (r"^[^,]{1,3}$", ["é漢a"], ["a,b", ""]),
        (r"\/\@\_", ["x/@_y"], ["/@"]),
        (r"^(\([0-9]{3}\))?[0-9]{3}-[0-9]{4}$", ["555-1212", "(888)555-1212"], ["(800)FLOWERS"]),
    ],
)
def test_a_pattern_is_searched_with_ecma_classes(pattern: str, matching: list[str], other: list[str]) -> None:
    assert all(_matches(pattern, text) for text in matching)
    assert not any(_matches(pattern, text) for text in other)


@pytest.mark.parametrize("pattern", [r"\a", r"\Z", "(?i)a", "(?P<n>a)", "[b", r"\u{110000}", "a(?"])
def test_what_ecma_does_not_know_is_an_error(pattern: str) -> None:
    with pytest.raises(InvalidConstraint) as caught:
        _matches(pattern, "")
    assert caught.value.pointer == "/pattern"


@pytest.mark.parametrize("pattern", [r"(a)\1", r"(?<n>a)\k<n>", r"\p{Script=Greek}", r"(?=a).*(?<=ab)c"])
def test_what_cannot_be_kept_is_refused_with_keyword_and_hint(pattern: str) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        _matches(pattern, "")
    assert caught.value.keyword == "pattern"
    assert caught.value.hint
