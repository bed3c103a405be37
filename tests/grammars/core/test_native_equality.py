"""The native automaton and the one in Python give the same masks."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sgrt_grammars import GrammarCompiler, Matcher, UnsatisfiableConstraint, allowed_tokens, empty_mask
from sgrt_grammars.automaton.canonical import canonical_json
from sgrt_grammars.expression import (
    ByteSet,
    Canonical,
    Concatenation,
    Deferred,
    Distinct,
    Expression,
    Literal,
    Repetition,
    Scope,
)
from tests.grammars.core.language_oracle import (
    SMALL_VOCABULARY,
    capturing_expressions,
    nested_captures,
    regular_expressions,
)

RELAXED = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def state_of(matcher: Matcher) -> tuple[list[int], bool, bool, bytes, int]:
    row = empty_mask(SMALL_VOCABULARY.size)
    matcher.mask(row)
    length = len(matcher.shortest_completion())
    return (
        allowed_tokens(row),
        matcher.is_accepting,
        matcher.is_exhausted,
        matcher.forced_bytes(),
        length,
    )


def compile_both(
    compilers: tuple[GrammarCompiler, GrammarCompiler], expression: Expression
) -> list[Matcher] | None:
    matchers: list[Matcher] = []
    for compiler in compilers:
        try:
            matchers.append(compiler.compile_expression(expression).matcher())
        except UnsatisfiableConstraint:
            continue
    assert len(matchers) in (0, 2)
    return matchers or None


@RELAXED
@given(st.one_of(regular_expressions(), capturing_expressions(), nested_captures()), st.integers(0, 1 << 30))
def test_both_automata_agree_along_random_walks(
    compilers: tuple[GrammarCompiler, GrammarCompiler], expression: Expression, seed: int
) -> None:
    matchers = compile_both(compilers, expression)
    if matchers is None:
        return
    generator = random.Random(seed)
    for _ in range(6):
        first, second = (state_of(matcher) for matcher in matchers)
        assert first == second
        choices = [token for token in first[0] if SMALL_VOCABULARY.text(token)]
        if not choices:
            break
        token = generator.choice(choices)
        assert all(matcher.advance(token) for matcher in matchers)


def test_a_deferred_expression_is_built_once_by_either(
    compilers: tuple[GrammarCompiler, GrammarCompiler],
) -> None:
    for position, compiler in enumerate(compilers):
        built: list[int] = []

        def build(built: list[int] = built) -> Expression:
            built.append(1)
            return Literal(b"ab")

        lazy = Deferred(("lazy", position, "built once"), build)
        expression = Concatenation((Literal(b"c"), lazy, lazy))
        grammar = compiler.compile_expression(expression)
        for _ in range(2):
            state_of(grammar.matcher())
        assert built == [1]


def test_unique_json_items_agree(compilers: tuple[GrammarCompiler, GrammarCompiler]) -> None:
    letter = ByteSet(sum(1 << byte for byte in b"abc"))
    item = Distinct(Repetition(letter, 1, 2), Canonical.JSON)
    expression = Scope(Repetition(Concatenation((item, Literal(b"c"))), 1, 3))
    matchers = compile_both(compilers, expression)
    assert matchers is not None
    for text in (b"a", b"c", b"a"):
        assert state_of(matchers[0]) == state_of(matchers[1])
        token = SMALL_VOCABULARY.tokens.index(text)
        assert [matcher.advance(token) for matcher in matchers] == [True, True]


def test_canonical_json_identifies_equal_values_only() -> None:
    same = [
        (b"1", b"1.0"),
        (b"1e2", b"100"),
        (b'"a"', b'"\\u0061"'),
        (b'{"a":1,"b":2}', b'{ "b": 2.0, "a": 1}'),
    ]
    for left, right in same:
        assert canonical_json(left) == canonical_json(right)
    different = [
        (b"1", b"true"),
        (b"1", b"-1"),
        (b'"1"', b"1"),
        (b"[1,2]", b"[2,1]"),
        (b"[]", b"{}"),
        (b"0", b"[0]"),
    ]
    for left, right in different:
        assert canonical_json(left) != canonical_json(right)
