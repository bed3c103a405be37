"""Matchers: rollback, fork, forced text, end tokens, special tokens, batches, explanations, limits."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from sgrt_grammars import (
    CompileLimitExceeded,
    GrammarCompiler,
    InvalidConstraint,
    Limits,
    Matcher,
    UnsatisfiableConstraint,
    Vocabulary,
    allowed_tokens,
    empty_mask,
    fill_masks,
)
from sgrt_grammars.expression import (
    Alternation,
    ByteSet,
    Canonical,
    Concatenation,
    Deferred,
    Distinct,
    Expression,
    Literal,
    Repetition,
    Scope,
    SpecialToken,
)
from tests.grammars.core.language_oracle import (
    END,
    SMALL_VOCABULARY,
    capturing_expressions,
    regular_expressions,
)

RELAXED = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [None, None], [256], {"<call>": 257})
ANY_BYTE = ByteSet((1 << 256) - 1)


@pytest.fixture(params=[False, True], ids=["python", "native"])
def of_bytes(request: pytest.FixtureRequest) -> GrammarCompiler:
    """A compiler of a vocabulary of single bytes and one special token."""
    return GrammarCompiler(BYTES, native=request.param)


def allowed(matcher: Matcher) -> list[int]:
    row = empty_mask(matcher.vocabulary.size)
    matcher.mask(row)
    return allowed_tokens(row)


def feed(matcher: Matcher, text: bytes) -> None:
    for byte in text:
        assert matcher.advance(byte), (text, chr(byte))


@RELAXED
@given(st.one_of(regular_expressions(), capturing_expressions()), st.integers(0, 1 << 30))
def test_rolling_back_restores_every_mask(
    compiler: GrammarCompiler, expression: Expression, seed: int
) -> None:
    try:
        matcher = compiler.compile_expression(expression).matcher()
    except UnsatisfiableConstraint:
        assume(False)
        return
    generator = random.Random(seed)
    masks = [allowed(matcher)]
    while len(masks) < 7:
        choices = [token for token in masks[-1] if token != END]
        if not choices:
            break
        assert matcher.advance(generator.choice(choices))
        masks.append(allowed(matcher))
    while len(masks) > 1:
        count = generator.randint(1, len(masks) - 1)
        matcher.rollback(count)
        del masks[len(masks) - count :]
        assert allowed(matcher) == masks[-1]


def test_a_fork_and_its_origin_go_their_own_ways(compiler: GrammarCompiler) -> None:
    letter = ByteSet(sum(1 << byte for byte in b"abc"))
    unique = Scope(Repetition(Distinct(letter, Canonical.BYTES), 1, 3))
    matcher = compiler.compile_expression(unique).matcher()
    a, b, c = (SMALL_VOCABULARY.tokens.index(text) for text in (b"a", b"b", b"c"))
    assert matcher.advance(a)
    fork = matcher.fork()
    assert fork.advance(b)
    assert matcher.advance(c)
    assert c in allowed(fork)
    assert b in allowed(matcher)
    assert c not in allowed(matcher)
    assert not fork.advance(b)
    with pytest.raises(ValueError, match="roll back"):
        matcher.rollback(3)


def test_no_walk_runs_out_of_distinct_items(of_bytes: GrammarCompiler) -> None:
    choice = Distinct(Alternation((Literal(b"red"), Literal(b"green"))), Canonical.BYTES)

    def more(count: int) -> Expression:
        following = Concatenation((Literal(b","), choice, rest(count + 1)))
        return Alternation((Literal(b"]"), following) if count >= 2 else (following,))

    def rest(count: int) -> Expression:
        return Deferred(("two of two", min(count, 2)), lambda: more(count))

    matcher = of_bytes.compile_expression(Scope(Concatenation((Literal(b"["), choice, rest(1))))).matcher()
    feed(matcher, b"[red,")
    assert allowed(matcher) == [ord("g")]
    feed(matcher, b"green")
    assert allowed(matcher) == [ord("]")]
    assert matcher.forced_bytes() == b"]"


def test_a_scope_that_needs_more_distinct_texts_than_there_are_is_unsatisfiable(
    of_bytes: GrammarCompiler,
) -> None:
    flag = Distinct(ByteSet(1 << ord("0") | 1 << ord("1")), Canonical.BYTES)
    with pytest.raises(UnsatisfiableConstraint):
        of_bytes.compile_expression(Scope(Repetition(flag, 3, 5)))


def test_end_tokens_are_allowed_exactly_where_the_text_may_end(of_bytes: GrammarCompiler) -> None:
    matcher = of_bytes.compile_expression(Repetition(Literal(b"ab"), 1, None)).matcher()
    assert 256 not in allowed(matcher)
    assert not matcher.advance(256)
    feed(matcher, b"ab")
    assert allowed(matcher) == [ord("a"), 256]
    assert matcher.advance(256)
    assert matcher.is_finished
    assert allowed(matcher) == [256]
    assert matcher.shortest_completion() == ()
    matcher.rollback(1)
    assert allowed(matcher) == [ord("a"), 256]


def test_special_tokens_are_reached_by_id_and_count_as_one_token(of_bytes: GrammarCompiler) -> None:
    call = Concatenation((Literal(b"x"), SpecialToken(257), Literal(b"y")))
    matcher = of_bytes.compile_expression(call).matcher()
    assert matcher.shortest_completion() == (ord("x"), 257, ord("y"))
    assert matcher.forced_tokens() == (ord("x"), 257, ord("y"))
    assert matcher.forced_bytes() == b"x"
    feed(matcher, b"x")
    assert allowed(matcher) == [257]
    assert "<call>" in matcher.explain()
    assert matcher.advance(257)
    assert allowed(matcher) == [ord("y")]


def test_forced_tokens_hold_back_the_last_one_where_text_follows(compiler: GrammarCompiler) -> None:
    tail = Repetition(ByteSet(1 << ord("b") | 1 << ord("c")), 1, None)
    matcher = compiler.compile_expression(Concatenation((Literal(b"abca"), tail))).matcher()
    texts = [SMALL_VOCABULARY.text(token) for token in matcher.forced_tokens()]
    assert b"".join(text or b"" for text in texts) == b"abc"
    whole = compiler.compile_expression(Literal(b"abc")).matcher()
    assert [SMALL_VOCABULARY.text(token) for token in whole.forced_tokens()] == [b"abc"]


def test_forced_tokens_are_those_of_the_tokenizer() -> None:
    table = {"abc": (2, 3)}
    vocabulary = Vocabulary([None, b"ab", b"a", b"bc", b"b", b"c"], [0], encode=lambda text: table[text])
    matcher = GrammarCompiler(vocabulary, native=False).compile_expression(Literal(b"abc"))
    assert matcher.matcher().forced_tokens() == (2, 3)


def test_a_row_has_an_identity_where_it_depends_on_the_state_alone(of_bytes: GrammarCompiler) -> None:
    grammar = of_bytes.compile_expression(Repetition(Literal(b"ab"), 0, None))
    matcher = grammar.matcher()
    first = matcher.row()
    assert first is not None
    feed(matcher, b"abab")
    again = matcher.row()
    assert again is not None
    assert again[0] == matcher.fork().row()[0]  # type: ignore[index]  # it was just there
    assert allowed_tokens(again[1]) == allowed(matcher)


def test_masks_are_filled_in_batches(of_bytes: GrammarCompiler) -> None:
    texts = (b"ab", b"cd", b"abcd")
    matchers = [of_bytes.compile_expression(Literal(text)).matcher() for text in texts]
    matchers[2].advance(ord("a"))
    rows = np.zeros((4, len(empty_mask(BYTES.size))), np.uint32)
    fill_masks(matchers, rows, [None, 2, 9])
    assert [allowed_tokens(row) for row in rows] == [[ord("a")], [ord("c")], [ord("b")], []]
    with pytest.raises(ValueError, match="one mask row"):
        fill_masks(matchers, rows[:2])


def test_a_wrong_row_is_refused(of_bytes: GrammarCompiler) -> None:
    matcher = of_bytes.compile_expression(Literal(b"a")).matcher()
    with pytest.raises(ValueError, match="words is needed"):
        matcher.mask(np.zeros(3, np.uint32))


def test_left_recursion_is_refused(of_bytes: GrammarCompiler) -> None:
    def rule() -> Expression:
        return Alternation((Concatenation((recursive, Literal(b"a"))), Literal(b"b")))

    recursive = Deferred(("left recursive",), rule)
    with pytest.raises(InvalidConstraint, match="left-recursive"):
        allowed(of_bytes.compile_expression(recursive).matcher())


def test_a_recursion_without_an_end_is_unsatisfiable(of_bytes: GrammarCompiler) -> None:
    endless = Deferred(("endless",), lambda: Concatenation((Literal(b"a"), endless)))
    with pytest.raises(UnsatisfiableConstraint):
        of_bytes.compile_expression(endless)


def test_deep_nesting_neither_crashes_nor_stalls(of_bytes: GrammarCompiler) -> None:
    nested: Expression = Literal(b"x")
    for _ in range(30_000):
        nested = Concatenation((Literal(b"("), Alternation((nested, Literal(b"y"))), Literal(b")")))
    matcher = of_bytes.compile_expression(nested).matcher()
    feed(matcher, b"((((")
    assert set(allowed(matcher)) == {ord("("), ord("y")}


def test_recursion_in_the_text_may_go_deep(of_bytes: GrammarCompiler) -> None:
    def rule() -> Expression:
        return Alternation((Literal(b"x"), Concatenation((Literal(b"("), parenthesised, Literal(b")")))))

    parenthesised = Deferred(("parenthesised",), rule)
    matcher = of_bytes.compile_expression(parenthesised).matcher()
    feed(matcher, b"(" * 3000 + b"x")
    assert allowed(matcher) == [ord(")")]
    feed(matcher, b")" * 3000)
    assert matcher.is_accepting


def test_nested_repetition_does_not_blow_up(of_bytes: GrammarCompiler) -> None:
    many = Repetition(Repetition(Literal(b"a"), 1, None), 1, None)
    matcher = of_bytes.compile_expression(Concatenation((many, Literal(b"b")))).matcher()
    feed(matcher, b"a" * 200)
    assert allowed(matcher) == [ord("a"), ord("b")]


def test_large_counted_repetitions_stay_lazy(of_bytes: GrammarCompiler) -> None:
    letter = ByteSet(sum(1 << byte for byte in range(ord("a"), ord("z") + 1)))
    matcher = of_bytes.compile_expression(
        Concatenation((Repetition(letter, 2, 10_000), Literal(b"!")))
    ).matcher()
    feed(matcher, b"abc")
    assert ord("!") in allowed(matcher)
    assert len(matcher.shortest_completion()) == 1


def test_large_enumerations_compile(of_bytes: GrammarCompiler) -> None:
    options = tuple(Literal(b"value_%05d" % number) for number in range(5000))
    matcher = of_bytes.compile_expression(Alternation(options)).matcher()
    assert matcher.forced_bytes() == b"value_0"
    feed(matcher, b"value_0499")
    assert allowed(matcher) == [ord(str(digit)) for digit in range(10)]


@pytest.mark.parametrize("is_native", [False, True])
def test_a_budget_of_states_is_an_error_of_that_constraint_alone(is_native: bool) -> None:
    compiler = GrammarCompiler(BYTES, Limits(max_states=3000), native=is_native)
    large = Alternation(tuple(Literal(b"%06d" % (number * 7919 % 999_983)) for number in range(5000)))
    for _ in range(2):
        with pytest.raises(CompileLimitExceeded, match="max_states"):
            compiler.compile_expression(large)
    small = compiler.compile_expression(Literal(b"ok")).matcher()
    assert allowed(small) == [ord("o")]


@pytest.mark.parametrize("is_native", [False, True])
def test_a_text_without_tokens_for_its_bytes_is_unsatisfiable(is_native: bool) -> None:
    compiler = GrammarCompiler(Vocabulary([None, b"a", b"b"], [0]), native=is_native)
    with pytest.raises(UnsatisfiableConstraint):
        compiler.compile_expression(Literal(b"abc"))
    choice = Alternation((Literal(b"abc"), Literal(b"ab")))
    assert allowed(compiler.compile_expression(choice).matcher()) == [1]


def test_matchers_of_one_compiler_run_in_threads(of_bytes: GrammarCompiler) -> None:
    failures: list[str] = []

    def run(number: int) -> None:
        text = b"thread %d says hello" % number
        for _ in range(20):
            matcher = of_bytes.compile_expression(Literal(text)).matcher()
            for byte in text:
                if allowed(matcher) != [byte] or not matcher.advance(byte):
                    failures.append(text.decode())
                    return

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_an_explanation_says_what_may_come_and_how_to_end(of_bytes: GrammarCompiler) -> None:
    digits = ByteSet(sum(1 << byte for byte in b"0123456789"))
    matcher = of_bytes.compile_expression(Concatenation((Repetition(digits, 1, 3), Literal(b";")))).matcher()
    feed(matcher, b"1")
    text = matcher.explain()
    assert "next byte: 0-9 ;" in text
    assert "shortest completion known (1 tokens): ';'" in text
