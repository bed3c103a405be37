"""Walks whose every mask is compared with the words of a language, every token tried byte by byte."""

from __future__ import annotations

import random

from sgrt_grammars import (
    GrammarCompiler,
    Matcher,
    UnsatisfiableConstraint,
    Vocabulary,
    allowed_tokens,
    empty_mask,
)
from sgrt_grammars.expression import Expression
from tests.grammars.core.language_oracle import END, matches, prefixes, spelled, words

LONGEST = 6


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
    spelling = [token for token in range(1, vocabulary.size) if vocabulary.text(token)]
    while len(text) < 4:
        allowed = mask_of(matcher, vocabulary)
        assert (END in allowed) == matches(expression, text)
        assert set(allowed) <= {END, *spelling}
        for token in spelling:
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
