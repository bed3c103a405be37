"""What stays in a head is found once for all that may follow; the masks must equal trying every token."""

from __future__ import annotations

import random

import pytest

from sgrt_grammars import GrammarCompiler, Vocabulary
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
)
from sgrt_native import NativeUnavailable
from tests.grammars.core.language_oracle import ALPHABET
from tests.grammars.core.walk_oracle import check_walk

NUM_TAILS = 4


def random_vocabulary(chance: random.Random) -> Vocabulary:
    """The end, every byte of the alphabet, longer tokens (some twice), and tokens that spell nothing."""
    longer = [bytes(chance.choices(ALPHABET, k=chance.randint(2, 6))) for _ in range(chance.randint(4, 30))]
    tokens: list[bytes | None] = [*(bytes([byte]) for byte in ALPHABET), *longer, longer[0], None, b""]
    chance.shuffle(tokens)
    return Vocabulary([None, *tokens], [0])


def some_bytes(chance: random.Random) -> ByteSet:
    return ByteSet(sum(1 << byte for byte in chance.sample(ALPHABET, chance.randint(1, 3))))


def some_text(chance: random.Random) -> Literal:
    return Literal(bytes(chance.choices(ALPHABET, k=chance.randint(1, 3))))


def random_head(chance: random.Random) -> Expression:
    """Spaces, the digits of a number, spaces in front of a word: what many states of a document begin with."""
    spaces = Repetition(some_bytes(chance), 0, chance.choice([1, 2, 3, None]))
    number = Repetition(some_bytes(chance), 1, chance.choice([2, None]))
    heads: list[Expression] = [
        spaces,
        number,
        Concatenation((spaces, some_text(chance))),
        Concatenation((spaces, number)),
        Concatenation((spaces, Alternation((some_text(chance), number)), spaces)),
        Alternation((some_text(chance), Concatenation((some_text(chance), spaces)))),
    ]
    return chance.choice(heads)


def random_tail(chance: random.Random, name: str) -> Expression:
    """What follows it: known late, as parts of a document are, with and without registers."""
    items = Scope(
        Concatenation(
            tuple(
                Distinct(Repetition(some_bytes(chance), chance.randint(0, 1), 2), Canonical.BYTES)
                for _ in range(chance.randint(1, 2))
            )
        )
    )
    known: list[Expression] = [
        some_text(chance),
        random_head(chance),
        items,
        Concatenation((some_text(chance), items)),
    ]
    rest = chance.choice(known)
    late = Deferred(("shared heads", name), lambda: rest)
    return chance.choice(
        [late, Concatenation((items, late)), Concatenation((random_head(chance), late)), rest]
    )


@pytest.mark.parametrize("is_native", [False, True], ids=["python", "native"])
@pytest.mark.parametrize("seed", range(8))
def test_masks_behind_one_head_equal_brute_force_for_all_that_may_follow(seed: int, is_native: bool) -> None:
    chance = random.Random(seed)
    try:
        compiler = GrammarCompiler(random_vocabulary(chance), native=is_native)
    except NativeUnavailable as error:
        pytest.skip(f"no native automaton: {error}")
    head = random_head(chance)
    for number in range(NUM_TAILS):
        tail = random_tail(chance, f"{seed}/{number}")
        check_walk(compiler, Concatenation((head, tail)), chance.randrange(1 << 30))
