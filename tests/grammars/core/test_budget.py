"""Budgets: a walk that follows the masks with a falling budget always closes."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sgrt_grammars import (
    BudgetTooSmall,
    GrammarCompiler,
    UnsatisfiableConstraint,
    allowed_tokens,
    empty_mask,
)
from sgrt_grammars.expression import Concatenation, Expression, Literal, Repetition
from tests.grammars.core.language_oracle import (
    END,
    SMALL_VOCABULARY,
    capturing_expressions,
    matches,
    regular_expressions,
    spelled,
)

RELAXED = settings(
    max_examples=70, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def walk(compiler: GrammarCompiler, expression: Expression, budget: int, seed: int) -> tuple[int, ...]:
    """Random tokens under the masks of a falling budget, until the end token is drawn or nothing is left."""
    generator = random.Random(seed)
    matcher = compiler.compile_expression(expression).matcher()
    row = empty_mask(SMALL_VOCABULARY.size)
    tokens: list[int] = []
    while len(tokens) < 60:
        matcher.mask(row, budget - len(tokens))
        allowed = allowed_tokens(row)
        assert allowed, "a dead end"
        token = generator.choice(allowed)
        assert matcher.advance(token, budget - len(tokens)) or token == END
        if token == END:
            break
        tokens.append(token)
    assert len(tokens) <= budget
    return tuple(tokens)


@RELAXED
@given(st.one_of(regular_expressions(), capturing_expressions()), st.integers(0, 50), st.integers(0, 1 << 30))
def test_walks_close_within_any_budget_from_the_minimum(
    compiler: GrammarCompiler, expression: Expression, extra: int, seed: int
) -> None:
    try:
        grammar = compiler.compile_expression(expression)
    except UnsatisfiableConstraint:
        assume(False)
        return
    tokens = walk(compiler, expression, grammar.minimum_tokens + extra, seed)
    if len(tokens) < 60:
        assert matches(expression, spelled(tokens, SMALL_VOCABULARY))


def test_a_budget_below_the_minimum_is_an_error_that_names_what_is_needed(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile_expression(Literal(b"abcabc"))
    row = empty_mask(SMALL_VOCABULARY.size)
    with pytest.raises(BudgetTooSmall) as caught:
        grammar.matcher().mask(row, 1)
    assert caught.value.needed == grammar.minimum_tokens == 2


def test_only_tokens_that_close_in_time_stay_allowed(compiler: GrammarCompiler) -> None:
    many = Concatenation((Repetition(Literal(b"a"), 0, None), Literal(b"cb")))
    matcher = compiler.compile_expression(many).matcher()
    row = empty_mask(SMALL_VOCABULARY.size)
    matcher.mask(row, 1)
    assert [SMALL_VOCABULARY.text(t) for t in allowed_tokens(row)] == [b"cb"]
    matcher.mask(row, 2)
    assert {SMALL_VOCABULARY.text(t) for t in allowed_tokens(row)} == {b"a", b"aaa", b"c", b"cb"}


def test_advance_with_a_budget_refuses_what_the_mask_forbids(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile_expression(
        Concatenation((Repetition(Literal(b"a"), 0, None), Literal(b"b")))
    ).matcher()
    assert not matcher.advance(SMALL_VOCABULARY.tokens.index(b"a"), 1)
    assert matcher.advance(SMALL_VOCABULARY.tokens.index(b"a"), 2)
    assert matcher.advance(SMALL_VOCABULARY.tokens.index(b"b"), 1)
    assert matcher.is_accepting
