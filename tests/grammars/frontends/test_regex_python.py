"""Python's dialect, full match, against `re` itself."""

from __future__ import annotations

import itertools
import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sgrt_grammars.constraint import Regex, RegexDialect
from sgrt_grammars.errors import CompileLimitExceeded, GrammarError, InvalidConstraint, UnsupportedConstraint
from sgrt_grammars.regex.compile import pattern_language, regex_expression
from sgrt_grammars.regex.language import contains
from tests.grammars.frontends.expression_oracle import Oracle

ALPHABET = "abz_0 \n,éS"


def _texts(length: int, alphabet: str = ALPHABET) -> list[str]:
    return ["".join(text) for size in range(length + 1) for text in itertools.product(alphabet, repeat=size)]


def _accepts(pattern: str, text: str) -> bool:
    return Oracle(regex_expression(Regex(pattern=pattern))).accepts(text.encode())


@pytest.mark.parametrize(
    "pattern",
    [
        r"^ab|z$",
        r"\bab\b.*",
        r"(?=.*[0-9])[a-z0-9]+",
        r"(?!ab)[a-z]+",
        r"(?!(ab|z)\b)[a-z]+",
        r"[a-z]+(?<!z)",
        r"a\b.b",
        r"(?i)stra[sß]e|É+",
        r"(?m)^a$\n^b$",
        r"a$\n?",
        r"[^\W\d]+",
        r"(?<=a)b|a(?<=a)b?",
        r"\Ba\B|b",
        r"(?x) a b # a comment",
        r"(a|(?<=b)z|b)(?=z)z",
        r"a{,2}b{1,}",
        r"(?:^|,)z(?:,|$)",
        r"(?=a)(?<!b)a(?<=a)",
        r"z*(?=b)\bb",
        r"(a*b?)*z",
        r"(a|\Z)*",
        r"([^,]+(,|\Z)){2,}",
        r"[]a^-]+",
        r"[\d\s]{2}",
        r"(?s:.)(?-i:a)",
        r"(?a:\w)é",
        r"\x61\u0062\N{LATIN SMALL LETTER Z}|\141",
        r"a{b}|{",
        r"(?P<name>a)(?#comment)b*?",
    ],
)
def test_a_pattern_accepts_what_re_matches_in_full(pattern: str) -> None:
    oracle = Oracle(regex_expression(Regex(pattern=pattern)))
    compiled = re.compile(pattern)
    for text in _texts(3):
        assert oracle.accepts(text.encode()) is bool(compiled.fullmatch(text)), repr(text)


def _patterns() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(
        ["a", "b", "z", ".", r"\w", r"\W", r"\s", "[a-m]", "[^b]", r"[\d_]", "(?i:s)", "é"]
    )
    looks = st.sampled_from(
        ["^", "$", r"\b", r"\B", "(?=a)", "(?!b)", "(?<=a)", "(?<!z)", "(?=.b)", "(?!a$)"]
    )
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map(
                lambda pair: f"(?:{pair[0]}){pair[1]}"
            ),
            st.tuples(looks, inner).map("".join),
            st.tuples(inner, looks).map("".join),
        ),
        max_leaves=6,
    )


@settings(max_examples=150, deadline=None)
@given(pattern=_patterns(), texts=st.lists(st.text(ALPHABET, max_size=6), max_size=25), is_full=st.booleans())
def test_random_patterns_agree_with_re(pattern: str, texts: list[str], is_full: bool) -> None:
    compiled = re.compile(pattern)
    try:
        language = pattern_language(
            pattern, RegexDialect.PYTHON, is_full=is_full, pointer="", keyword="regex"
        )
    except (UnsupportedConstraint, CompileLimitExceeded):
        return
    for text in texts:
        expected = compiled.fullmatch(text) if is_full else compiled.search(text)
        assert contains(language, text) is bool(expected), (pattern, text)


@settings(max_examples=60, deadline=None)
@given(pattern=_patterns(), texts=st.lists(st.text(ALPHABET, max_size=5), max_size=10))
def test_the_spelled_expression_agrees_with_the_language(pattern: str, texts: list[str]) -> None:
    try:
        language = pattern_language(pattern, RegexDialect.PYTHON, is_full=True, pointer="", keyword="regex")
    except (UnsupportedConstraint, CompileLimitExceeded):
        return
    oracle = Oracle(regex_expression(Regex(pattern=pattern)))
    for text in texts:
        assert oracle.accepts(text.encode()) is contains(language, text), (pattern, text)


@settings(max_examples=200, deadline=None)
@given(pattern=st.text("ab()[]{}|*+?^$\\.-,01:=!<>Pdx", max_size=9))
def test_what_re_does_not_parse_is_refused_and_nothing_else_crashes(pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
        is_valid = True
    except (re.error, OverflowError):
        is_valid = False
    try:
        regex_expression(Regex(pattern=pattern))
    except InvalidConstraint:
        assert not is_valid, pattern
    except GrammarError:
        pass


@pytest.mark.parametrize(
    ("pattern", "message"),
    [(r"(a)\1", "backreference"), ("(?>a)", "atomic"), ("a++", "possessive"), ("(?(1)a|b)", "backreference")],
)
def test_what_is_not_regular_is_refused_by_name(pattern: str, message: str) -> None:
    with pytest.raises(UnsupportedConstraint, match=message) as caught:
        regex_expression(Regex(pattern=pattern))
    assert caught.value.hint


@pytest.mark.parametrize(
    "pattern", ["(", "a)", "[b", "*a", "a**", "[z-a]", r"\q", "a{2,1}", "(?P<1>a)", "^*"]
)
def test_malformed_patterns_are_errors_with_a_position(pattern: str) -> None:
    with pytest.raises(InvalidConstraint, match="position"):
        regex_expression(Regex(pattern=pattern))


def test_deep_and_long_patterns_end_in_a_typed_error_or_a_result() -> None:
    with pytest.raises(CompileLimitExceeded):
        regex_expression(Regex(pattern="(" * 30_000 + "a" + ")" * 30_000))
    assert _accepts("[a-f]{1,10000}", "abc" * 9)
    assert not _accepts("(a+)+b", "a" * 60)


def test_ranges_beyond_ascii_are_characters_not_bytes() -> None:
    assert _accepts("[🍇-🍓]{1,3}", "🍓🍍")
    assert not _accepts("[🍇-🍓]", "🍈"[:0] + "x")
    assert not _accepts("[^à-ÿ]{1,2}", "aé")
    assert _accepts("[一-龥]+", "龥一")
