"""Operations have budgets of their own, and those of different threads come between each other."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from sgrt_grammars import Vocabulary
from sgrt_grammars.compiler import GrammarCompiler
from sgrt_grammars.constraint import Regex, RegexDialect
from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.expression import Alternation, Concatenation, Deferred, Expression, Literal
from sgrt_grammars.limits import Limits
from sgrt_grammars.mask import empty_mask, is_allowed

BYTES = Vocabulary([bytes([byte]) for byte in range(256)] + [b"ab", b"abab"], end_token_ids=[0])


def _endless(name: str) -> Expression:
    """A tree of states without an end: no text belongs to it, and no state of it is like another."""

    def build() -> Expression:
        return Alternation(
            tuple(Concatenation((Literal(letter.encode()), _endless(name + letter))) for letter in "ab")
        )

    return Deferred(("endless", name), build)


def test_an_endless_search_ends_by_its_memory() -> None:
    limits = Limits(time_s=1000.0, max_states=10**9, max_operation_bytes=2_000_000)
    compiler = GrammarCompiler(BYTES, limits, native=True)
    with pytest.raises(CompileLimitExceeded) as caught:
        compiler.compile_expression(_endless(""))
    assert caught.value.limit == "max_operation_bytes"


@pytest.mark.parametrize("is_native", [False, True])
def test_an_endless_search_ends_by_its_states(is_native: bool) -> None:
    compiler = GrammarCompiler(BYTES, Limits(time_s=1000.0, max_states=2_000), native=is_native)
    with pytest.raises(CompileLimitExceeded) as caught:
        compiler.compile_expression(_endless(""))
    assert caught.value.limit == "max_states"


def test_what_one_operation_used_is_not_held_against_the_next() -> None:
    compiler = GrammarCompiler(BYTES, Limits(max_states=200), native=True)
    for number in range(20):
        grammar = compiler.compile_expression(Literal(f"text {number}".encode()))
        assert grammar.matcher().advance(ord("t"))


def test_a_mask_does_not_wait_for_a_compilation_in_another_thread() -> None:
    compiler = GrammarCompiler(BYTES, native=True)
    matcher = compiler.compile_expression(Literal(b"abab")).matcher()
    is_building, may_build = threading.Event(), threading.Event()

    def build() -> Expression:
        is_building.set()
        assert may_build.wait(60)
        return Literal(b"x")

    slow = threading.Thread(target=compiler.compile_expression, args=(Deferred("slow", build),))
    slow.start()
    try:
        assert is_building.wait(60)
        mask = empty_mask(BYTES.size)
        matcher.mask(mask)
        assert np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")).tolist() == [
            97,
            256,
            257,
        ]
        assert matcher.advance(256)
        assert slow.is_alive()
    finally:
        may_build.set()
        slow.join(60)


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?!.*://)((.{1,63}\.){1,20}[a-z0-9-]+)$",
        r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$",
        r"^(?!.*--)(?!.*@)([a-z@-]{1,40}[.]){2,9}[a-z:-]+$",
    ],
)
def test_a_long_counted_text_that_must_not_hold_something_takes_few_states(
    pattern: str, is_native: bool
) -> None:
    limits = Limits(time_s=1000.0, operation_time_s=1000.0, max_states=20_000)
    compiler = GrammarCompiler(BYTES, limits, native=is_native)
    matcher = compiler.compile(Regex(pattern=pattern, dialect=RegexDialect.ECMA)).matcher()
    row = empty_mask(BYTES.size)
    for byte in b"ab.c.de.a-":
        matcher.mask(row)
        assert is_allowed(row, byte)
        assert matcher.advance(byte)
