"""Dense states (string bodies) are split, sliced and copied; their masks must equal trying every token."""

from __future__ import annotations

import random

import pytest

from sgrt_grammars import GrammarCompiler, Matcher, Vocabulary, allowed_tokens, empty_mask
from sgrt_grammars.expression import (
    Alternation,
    ByteSet,
    Canonical,
    Complement,
    Concatenation,
    Deferred,
    Distinct,
    Expression,
    Intersection,
    Literal,
    Repetition,
    Scope,
)

LETTERS = b"abcdefghijklmnopqrstuvwxyz"


def wide_vocabulary() -> Vocabulary:
    """All bytes, words, words with quotes and what follows them."""
    generator = random.Random(7)
    words = {bytes(generator.choices(LETTERS, k=generator.randint(2, 6))) for _ in range(1200)}
    words |= {word + suffix for word in list(words)[:60] for suffix in (b'"', b'",', b'":', b'"]')}
    words |= {b'"' + word for word in list(words)[:40]} | {b'",', b'":', b'"]', "é".encode(), b"nam", b"name"}
    words |= {b"\\n", b'\\"', b"\\", b'a\\"b'}
    words |= {b" " + word for word in list(words)[:60]} | {b"a b", b"a b c", b" a b c d", b"  ", b" " * 24}
    tokens = [bytes([byte]) for byte in range(256)] + sorted(words)
    return Vocabulary([*dict.fromkeys(tokens), None], [len(dict.fromkeys(tokens))])


VOCABULARY = wide_vocabulary()


@pytest.fixture(scope="module", params=[False, True], ids=["python", "native"])
def wide(request: pytest.FixtureRequest) -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY, native=request.param)


def byte_range(low: int, high: int) -> int:
    return sum(1 << byte for byte in range(low, high + 1))


PLAIN = ByteSet(byte_range(0x20, 0x7F) & ~(1 << ord('"') | 1 << ord("\\")))
ESCAPE = Concatenation((Literal(b"\\"), ByteSet(sum(1 << byte for byte in b'"\\nrt'))))
TWO_BYTES = Concatenation((ByteSet(byte_range(0xC2, 0xDF)), ByteSet(byte_range(0x80, 0xBF))))
CHARACTER = Alternation((PLAIN, ESCAPE, TWO_BYTES))
ANY = Repetition(CHARACTER, 0, None)
END: Expression = Deferred(
    ("dense", "end"), lambda: Alternation((Literal(b"]"), Concatenation((Literal(b","), VALUE, END))))
)


def quoted(body: Expression) -> Expression:
    return Concatenation((Literal(b'"'), body, Literal(b'"')))


VALUE: Expression = quoted(ANY)


def but(*names: bytes) -> Expression:
    return Intersection((ANY, Complement(Alternation(tuple(Literal(name) for name in names)))))


def shaped(count: int) -> Expression:
    lower = Repetition(ByteSet(byte_range(ord("a"), ord("z"))), 1, None)
    return Intersection((Repetition(CHARACTER, 0, count), lower))


def phrase(most_words: int, most_characters: int) -> Expression:
    letters = Repetition(ByteSet(byte_range(ord("a"), ord("z"))), 1, None)
    gap = Repetition(Literal(b" "), 1, None)
    words = Concatenation((Repetition(Concatenation((letters, gap)), 0, most_words - 1), letters))
    return Intersection((Repetition(CHARACTER, 0, most_characters), words))


UNIQUE = Scope(
    Concatenation(
        (
            Distinct(quoted(ANY), Canonical.JSON),
            Repetition(Concatenation((Literal(b","), Distinct(quoted(ANY), Canonical.JSON))), 0, None),
            Literal(b"]"),
        )
    )
)

CASES: dict[str, tuple[Expression, bytes]] = {
    "free": (Concatenation((VALUE, END)), b'"abc'),
    "counted far": (Concatenation((quoted(Repetition(CHARACTER, 0, 500)), END)), b'"abc'),
    "counted near": (Concatenation((quoted(Repetition(CHARACTER, 2, 7)), END)), b'"abcdef'),
    "all but names": (Concatenation((quoted(but(b"name", b"nap", b"other")), END)), b'"nam'),
    "all but many": (Concatenation((quoted(but(*(bytes([c]) + b"x" for c in LETTERS))), END)), b'"b'),
    "shaped and counted": (Concatenation((quoted(shaped(9)), END)), b'"abcdef'),
    "shaped far": (Concatenation((quoted(shaped(900)), END)), b'"abc'),
    "many words": (Concatenation((quoted(phrase(50, 500)), END)), b'"ab c'),
    "ten words": (Concatenation((quoted(phrase(10, 500)), END)), b'"a b cd e f g h i j'),
    "few characters": (Concatenation((quoted(phrase(40, 14)), END)), b'"ab cde f ghi'),
    "long": (Concatenation((quoted(Repetition(CHARACTER, 9, None)), END)), b'"abcdefghij'),
    "one of two": (
        Alternation(
            (
                Concatenation((quoted(Alternation((Literal(b"name"), Literal(b"nab")))), Literal(b":"))),
                Concatenation((quoted(but(b"name", b"nab")), END)),
            )
        ),
        b'"na',
    ),
    "unique": (UNIQUE, b'"abc","nam","abd"'),
    "two letters each": (
        Concatenation((quoted(Repetition(Concatenation((PLAIN, PLAIN)), 0, None)), END)),
        b'"abcd',
    ),
}


def allowed(matcher: Matcher, remaining: int | None = None) -> list[int]:
    row = empty_mask(VOCABULARY.size)
    matcher.mask(row, remaining)
    return allowed_tokens(row)


@pytest.mark.parametrize("case", list(CASES))
def test_a_dense_mask_equals_trying_every_token(wide: GrammarCompiler, case: str) -> None:
    expression, text = CASES[case]
    matcher = wide.compile_expression(expression).matcher()
    for byte in text:
        assert matcher.advance(byte)
        found = set(allowed(matcher))
        for token in range(VOCABULARY.size - 1):
            probe = matcher.fork()
            assert probe.advance(token) == (token in found), VOCABULARY.text(token)


@pytest.mark.parametrize("case", list(CASES))
def test_a_dense_mask_under_a_budget_keeps_what_closes_in_time(case: str) -> None:
    expression, text = CASES[case]
    matcher = GrammarCompiler(VOCABULARY, native=True).compile_expression(expression).matcher()
    for byte in text:
        assert matcher.advance(byte)
        needed = len(matcher.shortest_completion())
        for budget in (needed, needed + 1, needed + 3):
            found = set(allowed(matcher, budget))
            for token in random.Random(budget).sample(range(VOCABULARY.size - 1), 150):
                probe = matcher.fork()
                closes = probe.advance(token) and len(probe.shortest_completion()) < budget
                assert closes == (token in found), (VOCABULARY.text(token), budget)
