"""The known completion is close to the shortest one, against brute force: at most 1.25 of its tokens and one more.

The one more is that of complements and registers, whose completion is the shortest in bytes: `aa` in two tokens
where `ab` were one.
"""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sgrt_grammars import GrammarCompiler, UnsatisfiableConstraint, allowed_tokens, empty_mask
from sgrt_grammars.expression import Expression
from tests.grammars.core.language_oracle import (
    END,
    SMALL_VOCABULARY,
    capturing_expressions,
    regular_expressions,
    spelled,
    words,
)

LONGEST = 4
RELAXED = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@cache
def num_tokens(text: bytes) -> int:
    """The fewest tokens that spell a text."""
    least = [0]
    for end in range(1, len(text) + 1):
        pieces = (text[start:end] for start in range(max(end - 3, 0), end))
        least.append(
            min(
                least[end - len(piece)] + 1
                for piece in pieces
                if any(piece == token for token in SMALL_VOCABULARY.tokens)
            )
        )
    return least[-1]


def check(compiler: GrammarCompiler, expression: Expression, seed: int) -> None:
    """Compare along a random walk. Texts longer than `LONGEST` are not tried; a shorter one may only be missed."""
    try:
        matcher = compiler.compile_expression(expression).matcher()
    except UnsatisfiableConstraint:
        assume(False)
        return
    language = words(expression, LONGEST)
    chance = random.Random(seed)
    row, tokens = empty_mask(SMALL_VOCABULARY.size), list[int]()
    for _ in range(3):
        begun = spelled(tokens, SMALL_VOCABULARY)
        rests = [word[len(begun) :] for word in language if word.startswith(begun)]
        if not rests:
            return
        shortest = min(map(num_tokens, rests))
        assert 4 * len(matcher.shortest_completion()) <= 5 * shortest + 4, begun
        matcher.mask(row)
        allowed = [token for token in allowed_tokens(row) if token != END]
        if not allowed:
            return
        token = chance.choice(allowed)
        assert matcher.advance(token)
        tokens.append(token)


@pytest.mark.parametrize("is_native", [True, False])
@RELAXED
@given(
    expression=st.one_of(regular_expressions(), capturing_expressions()),
    seed=st.integers(0, 1 << 30),
)
def test_the_known_completion_is_nearly_the_shortest(
    is_native: bool, expression: Expression, seed: int
) -> None:
    check(GrammarCompiler(SMALL_VOCABULARY, native=is_native), expression, seed)
