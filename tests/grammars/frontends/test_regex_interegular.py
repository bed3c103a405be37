"""`interegular` as an independent oracle: its automata and ours accept the same texts."""

from __future__ import annotations

import itertools

import interegular
import pytest

from sgrt_grammars.constraint import RegexDialect
from sgrt_grammars.regex.compile import pattern_language
from sgrt_grammars.regex.language import Language, both, contains, outside

ALPHABET = "abc0"
PATTERNS = ["(a|b)*abb", "a?b{2,3}c*", "[a-c]+0?", "((ab)*|c0)*", "a[^b]c?", "(a|ab)(c|bc)0{0,2}"]


def _language(pattern: str) -> Language:
    return pattern_language(pattern, RegexDialect.PYTHON, is_full=True, pointer="", keyword="regex")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_languages_are_equal_up_to_a_length(pattern: str) -> None:
    automaton = interegular.parse_pattern(pattern).to_fsm()
    language = _language(pattern)
    for size in range(7):
        for letters in itertools.product(ALPHABET, repeat=size):
            text = "".join(letters)
            assert contains(language, text) is automaton.accepts(text), text


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(PATTERNS, 2)))
def test_intersections_and_differences_are_those_of_the_automata(one: str, other: str) -> None:
    first, second = (interegular.parse_pattern(pattern).to_fsm() for pattern in (one, other))
    common, rest = both(_language(one), _language(other)), both(_language(one), outside(_language(other)))
    for size in range(6):
        for letters in itertools.product(ALPHABET, repeat=size):
            text = "".join(letters)
            assert contains(common, text) is (first.accepts(text) and second.accepts(text))
            assert contains(rest, text) is (first.accepts(text) and not second.accepts(text))
