"""The keys that are not declared: split by the rules and counters that speak about them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sgrt_grammars.errors import CompileLimitExceeded
from sgrt_grammars.regex.language import NOTHING as NO_TEXT
from sgrt_grammars.regex.language import (
    Either,
    Language,
    Words,
    are_apart,
    both,
    contains,
    either,
    outside,
    words,
)
from sgrt_grammars.schema.formula import ALWAYS, NEVER, Formula, conjunction, negation
from sgrt_grammars.schema.objects import Count, ObjectShape

MAX_RULES = 8
"""Overlapping patterns split the keys into up to 2^MAX_RULES parts."""


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Free keys of a language, and the formula of their values."""

    keys: Language
    value: Formula


def ways(one: Count, count: int) -> list[tuple[Formula, int]]:
    """How a counter may count a property whose key it looks at: (what the value satisfies, the count after)."""
    if one.maximum is None and count >= one.minimum:
        return [(ALWAYS, count)]
    options = [(negation(one.value), count)]
    if one.maximum is None or count < one.maximum:
        options.append((one.value, count + 1))
    return [(formula, after) for formula, after in options if formula != NEVER]


@dataclass(frozen=True, slots=True)
class _Part:
    """Keys in all languages of `inside` and in none of `beyond`."""

    inside: tuple[Language, ...]
    beyond: tuple[Language, ...]
    value: Formula

    def split(self, keys: Language, value: Formula) -> tuple[_Part, ...]:
        """The keys that a rule speaks about, and the others."""
        if any(are_apart(one, keys) for one in self.inside):
            return (self,)
        return (
            _Part((*self.inside, keys), self.beyond, conjunction(self.value, value)),
            _Part(self.inside, (*self.beyond, keys), self.value),
        )

    def space(self) -> KeySpace:
        """The keys as one language, in which only what is inside need be taken away."""
        inside = both(*self.inside)
        beyond = either(*(_met(one, inside) for one in self.beyond)) if self.inside else either(*self.beyond)
        return KeySpace(both(inside, outside(beyond)), self.value)


def _met(beyond: Language, inside: Language) -> Language:
    """What of a language may lie in another."""
    if isinstance(beyond, Either):
        return either(*(_met(one, inside) for one in beyond.options))
    if isinstance(beyond, Words):
        return words(text for text in beyond.texts if contains(inside, text, possibly=True))
    return NO_TEXT if are_apart(beyond, inside) else beyond


def key_spaces(shape: ObjectShape) -> list[KeySpace]:
    """The free keys, split by which rules speak about them; keys that no value fits are left out."""
    by_value: dict[Formula, Language] = {}
    for rule in shape.rules:
        if rule.value != ALWAYS:
            by_value[rule.value] = either(by_value.get(rule.value, NO_TEXT), rule.keys)
    excluded = either(words(shape.members), by_value.pop(NEVER, NO_TEXT))
    parts = [_Part((), (excluded,), ALWAYS)]
    for value, keys in by_value.items():
        parts = [found for one in parts for found in one.split(keys, value)]
        if len(parts) > 2**MAX_RULES:
            raise CompileLimitExceeded(
                f"more than {MAX_RULES} rules speak about the same free keys", limit="rules"
            )
    spaces = [one.space() for one in parts if one.value != NEVER]
    return [one for one in spaces if one.keys != NO_TEXT]


def split_by_counters(
    space: KeySpace, counters: tuple[Count, ...], counts: tuple[int, ...]
) -> Iterator[tuple[Language, Formula, tuple[int, ...]]]:
    """The keys of a space and the formula of their values for every way of counting them, and the counts after it."""
    found: list[tuple[Language, Formula, tuple[int, ...]]] = [(space.keys, space.value, ())]
    for one, count in zip(counters, counts, strict=True):
        grown: list[tuple[Language, Formula, tuple[int, ...]]] = []
        for keys, value, before in found:
            inside, beyond = both(keys, one.keys), both(keys, outside(one.keys))
            if beyond != NO_TEXT:
                grown.append((beyond, value, (*before, count)))
            if inside != NO_TEXT:
                grown += [
                    (inside, conjunction(value, more), (*before, after)) for more, after in ways(one, count)
                ]
        found = grown
    return ((keys, value, after) for keys, value, after in found if value != NEVER)
