"""Masks against brute force: every token tried byte by byte in an independent reading of the expression."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgrt_grammars import GrammarCompiler
from sgrt_grammars.expression import Alternation, Concatenation, Deferred, Expression, Literal
from tests.grammars.core.language_oracle import (
    SMALL_VOCABULARY,
    capturing_expressions,
    nested_captures,
    regular_expressions,
)
from tests.grammars.core.walk_oracle import check_walk, mask_of

RELAXED = settings(
    max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


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
