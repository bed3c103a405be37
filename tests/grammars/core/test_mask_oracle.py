"""Masks against brute force: every token tried byte by byte in an independent reading of the expression."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgrt_grammars import (
    GrammarCompiler,
    Matcher,
    UnsatisfiableConstraint,
    Vocabulary,
    allowed_tokens,
    empty_mask,
)
from sgrt_grammars.expression import Alternation, Concatenation, Deferred, Expression, Literal
from tests.grammars.core.language_oracle import (
    END,
    SMALL_VOCABULARY,
    capturing_expressions,
    matches,
    nested_captures,
    prefixes,
    regular_expressions,
    spelled,
    words,
)

LONGEST = 6
RELAXED = settings(
    max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def mask_of(matcher: Matcher, vocabulary: Vocabulary, remaining: int | None = None) -> list[int]:
    row = empty_mask(vocabulary.size)
    matcher.mask(row, remaining)
    return allowed_tokens(row)


def check_walk(compiler: GrammarCompiler, expression: Expression, seed: int) -> None:
    """Compare every mask of a short random walk with the words of the language."""
    vocabulary = compiler.vocabulary
    language = words(expression, LONGEST)
    begun = prefixes(language)
    try:
        matcher = compiler.compile_expression(expression).matcher()
    except UnsatisfiableConstraint:
        assert not language
        return
    generator = random.Random(seed)
    text = b""
    while len(text) < 4:
        allowed = mask_of(matcher, vocabulary)
        assert (END in allowed) == matches(expression, text)
        for token in range(1, vocabulary.size):
            longer = text + (vocabulary.text(token) or b"")
            probe = matcher.fork()
            assert probe.advance(token) == (token in allowed)
            if token in allowed:
                closing = longer + spelled(probe.shortest_completion(), vocabulary)
                assert matches(expression, closing), (text, longer, closing)
            else:
                assert longer not in begun, (text, longer)
        choices = [token for token in allowed if token != END]
        if not choices:
            break
        token = generator.choice(choices)
        assert matcher.advance(token)
        text += vocabulary.text(token) or b""


@RELAXED
@given(regular_expressions(), st.integers(0, 1 << 30))
def test_masks_of_regular_expressions_equal_brute_force(
    compiler: GrammarCompiler, expression: Expression, seed: int
) -> None:
    check_walk(compiler, expression, seed)


@RELAXED
@given(capturing_expressions(), st.integers(0, 1 << 30))
def test_masks_under_registers_equal_brute_force(
    compiler: GrammarCompiler, expression: Expression, seed: int
) -> None:
    check_walk(compiler, expression, seed)


@RELAXED
@given(nested_captures(), st.integers(0, 1 << 30))
def test_masks_under_nested_registers_equal_brute_force(
    compiler: GrammarCompiler, expression: Expression, seed: int
) -> None:
    check_walk(compiler, expression, seed)


def nested(depth_key: str) -> Expression:
    """Balanced `a ... b` around an optional `c`."""
    inner = Deferred(("nested", depth_key), lambda: nested(depth_key))
    return Alternation((Literal(b"c"), Concatenation((Literal(b"a"), inner, Literal(b"b"))), Literal(b"")))


@pytest.mark.parametrize("seed", range(12))
def test_masks_of_a_recursive_rule_equal_brute_force(compiler: GrammarCompiler, seed: int) -> None:
    check_walk(compiler, nested("plain"), seed)


def test_duplicate_spellings_of_a_token_are_all_allowed(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_expression(Literal(b"ab")).matcher()
    allowed = mask_of(matcher, SMALL_VOCABULARY)
    assert [SMALL_VOCABULARY.text(token) for token in allowed] == [b"a", b"ab", b"ab"]
