"""Regular languages of characters: a boolean algebra on plain immutable trees.

The functions `chain`, `either`, `repeat`, `both` and `outside` build trees and simplify what is evident
(neutral and absorbing operands, finite sets); use them instead of the classes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cache

from sgrt_grammars.regex.charset import EVERY_CHARACTER, CharSet


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set."""

    members: CharSet


@dataclass(frozen=True, slots=True)
class Words:
    """A finite set of texts; no text at all is the empty language."""

    texts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Chain:
    """The parts one after the other."""

    parts: tuple[Language, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Any of the options."""

    options: tuple[Language, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`body`, `minimum` to `maximum` times (None: unbounded)."""

    body: Language
    minimum: int
    maximum: int | None


@dataclass(frozen=True, slots=True)
class Both:
    """Texts that are in every part."""

    parts: tuple[Language, ...]


@dataclass(frozen=True, slots=True)
class Outside:
    """Texts that are not in `body`."""

    body: Language


@dataclass(frozen=True, slots=True)
class Between:
    """A language that is known from two sides: all texts of `inner` belong to it, none outside of `outer` does.

    It is written as `inner`, and its complement as the complement of `outer`, so that neither holds a wrong text.
    `name` stands for both where languages are compared, as they may be large.
    """

    name: str
    inner: Language = field(compare=False)
    outer: Language = field(compare=False)


Language = Chars | Words | Chain | Either | Repeat | Both | Outside | Between

NOTHING = Words(frozenset())
EMPTY = Words(frozenset({""}))
ANY_CHARACTER = Chars(EVERY_CHARACTER)
ANY_TEXT = Repeat(ANY_CHARACTER, 0, None)
SOME_TEXT = Repeat(ANY_CHARACTER, 1, None)


def word(text: str) -> Language:
    """Exactly this text."""
    return Words(frozenset({text}))


def words(texts: Iterable[str]) -> Language:
    """Any one of these texts."""
    return Words(frozenset(texts))


def characters(members: CharSet) -> Language:
    """One character of the set."""
    return Chars(members) if members else NOTHING


def chain(*parts: Language) -> Language:
    """The parts one after the other."""
    flat: list[Language] = []
    for part in parts:
        if part == NOTHING:
            return NOTHING
        if part == EMPTY:
            continue
        for piece in part.parts if isinstance(part, Chain) else (part,):
            previous = flat[-1] if flat else None
            if _is_word(piece) and previous is not None and _is_word(previous):
                flat[-1] = word(_text(previous) + _text(piece))
            else:
                flat.append(piece)
    if len(flat) < 2:
        return flat[0] if flat else EMPTY
    return Chain(tuple(flat))


def either(*options: Language) -> Language:
    """Any one of the options."""
    others: dict[Language, None] = {}
    texts: frozenset[str] = frozenset()
    members: CharSet | None = None
    for option in options:
        for piece in option.options if isinstance(option, Either) else (option,):
            if isinstance(piece, Words):
                texts |= piece.texts
            elif isinstance(piece, Chars):
                members = piece.members if members is None else members | piece.members
            else:
                others[piece] = None
    if ANY_TEXT in others or any(isinstance(one, Outside) and _holds(others, one.body) for one in others):
        return ANY_TEXT
    flat: list[Language] = [Words(texts)] if texts else []
    if members is not None:
        flat.append(Chars(members))
    flat.extend(others)
    if len(flat) < 2:
        return flat[0] if flat else NOTHING
    return Either(tuple(flat))


def _holds(options: Collection[Language], language: Language) -> bool:
    """Whether a language, or every option of it, is among the options."""
    if isinstance(language, Either):
        return all(one in options for one in language.options)
    return language in options


def repeat(body: Language, minimum: int, maximum: int | None) -> Language:
    """`body`, `minimum` to `maximum` times; `maximum=None` is unbounded."""
    if maximum is not None and (maximum < minimum):
        return NOTHING
    if maximum == 0 or body == EMPTY:
        return EMPTY
    if body == NOTHING:
        return EMPTY if minimum == 0 else NOTHING
    if minimum == maximum == 1:
        return body
    return Repeat(body, minimum, maximum)


def both(*parts: Language) -> Language:
    """Texts that are in every part."""
    flat: dict[Language, None] = {}
    for part in parts:
        for piece in part.parts if isinstance(part, Both) else (part,):
            if piece != ANY_TEXT:
                flat[piece] = None
    finite = next((piece for piece in flat if isinstance(piece, Words)), None)
    if finite is not None:
        others = [piece for piece in flat if piece is not finite]
        return Words(frozenset(text for text in finite.texts if all(contains(one, text) for one in others)))
    if any(isinstance(piece, Outside) and piece.body in flat for piece in flat):
        return NOTHING
    return _bounded(list(flat))


def _bounded(parts: list[Language]) -> Language:
    """The intersection of infinite parts, with all plain length bounds merged into one."""
    bounds = [part for part in parts if isinstance(part, Repeat) and part.body == ANY_CHARACTER]
    if len(bounds) > 1:
        maxima = [bound.maximum for bound in bounds if bound.maximum is not None]
        merged = repeat(ANY_CHARACTER, max(bound.minimum for bound in bounds), min(maxima, default=None))
        rest = [part for part in parts if part not in bounds]
        return both(merged, *rest)
    if len(parts) < 2:
        return parts[0] if parts else ANY_TEXT
    return Both(tuple(parts))


def outside(body: Language) -> Language:
    """Texts that are not in `body`."""
    if isinstance(body, Outside):
        return body.body
    if body == NOTHING:
        return ANY_TEXT
    if body == ANY_TEXT:
        return NOTHING
    if isinstance(body, Repeat) and body.body == ANY_CHARACTER:
        below = repeat(ANY_CHARACTER, 0, body.minimum - 1) if body.minimum else NOTHING
        above = NOTHING if body.maximum is None else repeat(ANY_CHARACTER, body.maximum + 1, None)
        return either(below, above)
    return Outside(body)


def innermost(language: Language) -> Language:
    """The texts that surely belong: what is known from two sides is taken at its narrowest."""
    return _decided(language, is_widest=False)


def _decided(language: Language, *, is_widest: bool) -> Language:
    match language:
        case Between(_, inner, outer):
            return outer if is_widest else inner
        case Outside(body):
            return outside(_decided(body, is_widest=not is_widest))
        case Both(parts):
            return both(*(_decided(part, is_widest=is_widest) for part in parts))
        case Either(options):
            return either(*(_decided(option, is_widest=is_widest) for option in options))
        case _:
            return language


def contains(language: Language, text: str, *, possibly: bool = False) -> bool:
    """Whether `text` surely belongs to the language (or `possibly`, where it is known from two sides)."""
    match language:
        case Words(texts):
            return text in texts
        case Between(_, inner, outer):
            return contains(outer if possibly else inner, text)
        case Outside(body):
            return not contains(body, text, possibly=not possibly)
        case Both(parts):
            return all(contains(part, text, possibly=possibly) for part in parts)
        case Either(options):
            return any(contains(option, text, possibly=possibly) for option in options)
        case _:
            return len(text) in _Reader(text).ends(language, 0)


def are_apart(one: Language, other: Language) -> bool:
    """Whether evidently no text is in both: they begin differently."""
    left, right = _beginning(one), _beginning(other)
    return not left.startswith(right) and not right.startswith(left)


def _beginning(language: Language) -> str:
    """What all texts of a language evidently begin with."""
    match language:
        case Words(texts) if texts:
            return _common_beginning(texts)
        case Chain(parts):
            return _beginning(parts[0])
        case Either(options):
            return _common_beginning([_beginning(option) for option in options])
        case Both(parts):
            return max((_beginning(part) for part in parts), key=len)
        case _:
            return ""


def _common_beginning(texts: Collection[str]) -> str:
    first, last = min(texts), max(texts)
    length = next((i for i, character in enumerate(first) if last[i] != character), len(first))
    return first[:length]


class _Reader:
    """All the places where a language can end, for every place where it can begin in one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[tuple[int, int], frozenset[int]] = {}

    def ends(self, language: Language, start: int) -> frozenset[int]:
        key = (id(language), start)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._ends(language, start)
        return found

    def _ends(self, language: Language, start: int) -> frozenset[int]:
        match language:
            case Chars():
                is_member = start < len(self._text) and self._text[start] in language.members
                return frozenset({start + 1}) if is_member else frozenset()
            case Words():
                return frozenset(
                    start + len(one) for one in language.texts if self._text.startswith(one, start)
                )
            case Chain():
                return self._chain_ends(language, start)
            case Either():
                return frozenset().union(*(self.ends(option, start) for option in language.options))
            case Repeat():
                return self._repeat_ends(language, start)
            case Both():
                return frozenset.intersection(*(self.ends(part, start) for part in language.parts))
            case Outside():
                return frozenset(range(start, len(self._text) + 1)) - self.ends(language.body, start)
            case Between():
                raise AssertionError("what is known from two sides is no part of a chain")

    def _chain_ends(self, language: Chain, start: int) -> frozenset[int]:
        places = frozenset({start})
        for part in language.parts:
            places = frozenset().union(*(self.ends(part, place) for place in places))
        return places

    def _repeat_ends(self, language: Repeat, start: int) -> frozenset[int]:
        """Counts up to the minimum, then collects; a count beyond the text's length adds no place."""
        places = frozenset({start})
        for _ in range(min(language.minimum, len(self._text) + 1)):
            places = frozenset().union(*(self.ends(language.body, place) for place in places))
        most = len(self._text) + 1
        rounds = most if language.maximum is None else min(most, language.maximum - language.minimum)
        reached, fresh = places, places
        for _ in range(rounds):
            fresh = frozenset().union(*(self.ends(language.body, place) for place in fresh)) - reached
            if not fresh:
                break
            reached |= fresh
        return reached


@cache
def length_between(minimum: int, maximum: int | None) -> Language:
    """Any text of `minimum` to `maximum` characters (code points)."""
    if minimum == 0 and maximum is None:
        return ANY_TEXT
    return repeat(ANY_CHARACTER, minimum, maximum)


def _is_word(language: Language) -> bool:
    return isinstance(language, Words) and len(language.texts) == 1


def _text(language: Language) -> str:
    assert isinstance(language, Words), "only a finite set has texts"
    return next(iter(language.texts))
