"""An independent reading of expressions: plain recursive matching, and every word up to a length."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

from sgrt_grammars.automaton.canonical import canonical_json
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
from sgrt_grammars.vocabulary import Vocabulary

ALPHABET = b"abc"
END = 0

SMALL_VOCABULARY = Vocabulary(
    [None, b"a", b"b", b"c", b"ab", b"bc", b"ca", b"aaa", b"abc", b"cb", b"bb", b"cc", b"aab", b"ab", b"ba"],
    [END],
)


class Place(NamedTuple):
    """Where a match stands: the position, and what each open scope recorded."""

    position: int
    scopes: tuple[frozenset[bytes], ...] = ()


def places(expression: Expression, text: bytes, place: Place) -> set[Place]:
    """Every place at which `expression` may end in `text` when it starts at `place`."""
    match expression:
        case Literal(data):
            end = place.position + len(data)
            return {place._replace(position=end)} if text[place.position : end] == data else set()
        case ByteSet(members):
            here = text[place.position : place.position + 1]
            return {place._replace(position=place.position + 1)} if here and members >> here[0] & 1 else set()
        case Concatenation(parts):
            found = {place}
            for part in parts:
                found = {after for before in found for after in places(part, text, before)}
            return found
        case Alternation(options):
            return {after for option in options for after in places(option, text, place)}
        case Repetition(body, minimum, maximum):
            return _repeated(body, minimum, maximum, text, place)
        case Intersection(parts):
            return set.intersection(*(places(part, text, place) for part in parts))
        case Complement(body):
            everywhere = {place._replace(position=end) for end in range(place.position, len(text) + 1)}
            return everywhere - places(body, text, place)
        case _:
            return _other_places(expression, text, place)


def _other_places(expression: Expression, text: bytes, place: Place) -> set[Place]:
    match expression:
        case Deferred(_, build):
            return places(build(), text, place)
        case Scope(body):
            inner = place._replace(scopes=(frozenset(), *place.scopes))
            return {after._replace(scopes=after.scopes[1:]) for after in places(body, text, inner)}
        case Distinct(body, canonical):
            return set(_recorded(body, canonical, text, place))
        case _:
            raise AssertionError(f"not a byte expression: {expression}")


def _repeated(body: Expression, minimum: int, maximum: int | None, text: bytes, place: Place) -> set[Place]:
    reached = {place}
    result = {place} if minimum == 0 else set()
    for count in range(1, (maximum if maximum is not None else minimum + len(text) + 2) + 1):
        following = {after for before in reached for after in places(body, text, before)}
        if count >= minimum:
            following -= result
            result |= following
        if not following:
            break
        reached = following
    return result


def _recorded(body: Expression, canonical: Canonical, text: bytes, place: Place) -> Iterator[Place]:
    for after in places(body, text, place):
        captured = text[place.position : after.position]
        key = canonical_json(captured) if canonical is Canonical.JSON else captured
        if not after.scopes:
            yield after
        elif key not in after.scopes[0]:
            yield after._replace(scopes=(after.scopes[0] | {key}, *after.scopes[1:]))


def matches(expression: Expression, text: bytes) -> bool:
    """Whether the whole of `text` belongs to the language."""
    return any(after.position == len(text) for after in places(expression, text, Place(0)))


def words(expression: Expression, longest: int, alphabet: bytes = ALPHABET) -> set[bytes]:
    """Every word of at most `longest` bytes."""
    every = (bytes(w) for n in range(longest + 1) for w in itertools.product(alphabet, repeat=n))
    return {word for word in every if matches(expression, word)}


def prefixes(language: set[bytes]) -> set[bytes]:
    """Every prefix of every word."""
    return {word[:length] for word in language for length in range(len(word) + 1)}


def spelled(tokens: Sequence[int], vocabulary: Vocabulary) -> bytes:
    """The text of tokens."""
    return b"".join(vocabulary.text(token) or b"" for token in tokens)


def _byte_sets() -> st.SearchStrategy[Expression]:
    return st.sets(st.sampled_from(list(ALPHABET)), min_size=1).map(
        lambda members: ByteSet(sum(1 << byte for byte in members))
    )


_LITERALS = st.text("abc", max_size=3).map(lambda text: Literal(text.encode()))


def _repetitions(body: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    bounds = st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers(0, 2)))
    return st.builds(
        lambda inner, bound: Repetition(inner, bound[0], None if bound[1] is None else bound[0] + bound[1]),
        body,
        bounds,
    )


def _combined(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    some = st.lists(parts, min_size=1, max_size=3).map(tuple)
    return st.one_of(some.map(Concatenation), some.map(Alternation), _repetitions(parts))


def _boolean(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    some = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(_combined(parts), some.map(Intersection), parts.map(Complement))


def regular_expressions() -> st.SearchStrategy[Expression]:
    """Expressions over three letters, with intersections and complements."""
    return st.recursive(st.one_of(_LITERALS, _byte_sets()), _boolean, max_leaves=6)


def capturing_expressions() -> st.SearchStrategy[Expression]:
    """A scope around captures of small regular expressions, each at least one byte long."""
    letters, capture = _letters(), _captures()
    return st.recursive(st.one_of(letters, capture, capture), _combined, max_leaves=5).map(Scope)


def nested_captures() -> st.SearchStrategy[Expression]:
    """A scope around captures that hold further scopes, with and without captures of their own."""
    letters, capture = _letters(), _captures()
    inside = st.recursive(st.one_of(letters, capture), _combined, max_leaves=2).map(Scope)
    nested = st.builds(
        lambda head, tail: Distinct(Concatenation((head, tail)), Canonical.BYTES), letters, inside
    )
    pair = nested.map(lambda item: Concatenation((item, item)))
    parts = st.one_of(nested, nested, pair, pair, capture)
    return st.recursive(parts, _combined, max_leaves=3).map(Scope)


def _letters() -> st.SearchStrategy[Expression]:
    return st.one_of(_byte_sets(), st.text("abc", min_size=1, max_size=2).map(lambda t: Literal(t.encode())))


def _captures() -> st.SearchStrategy[Expression]:
    letters = _letters()
    body = st.one_of(letters, st.builds(lambda a, b: Alternation((a, b)), letters, letters))
    return body.map(lambda inner: Distinct(inner, Canonical.BYTES))
