"""Combinations of constraints: sequences, choices, repetitions, tags, and free text with triggers."""

from __future__ import annotations

from collections.abc import Callable

from sgrt_grammars.constraint import (
    AnyText,
    Constraint,
    OneOf,
    Repeat,
    Sequence,
    StructuralTag,
    Tag,
    Text,
    Token,
)
from sgrt_grammars.errors import InvalidConstraint
from sgrt_grammars.expression import (
    EMPTY_TEXT,
    Alternation,
    Concatenation,
    Expression,
    Literal,
    Repetition,
    SpecialToken,
)
from sgrt_grammars.regex.language import ANY_TEXT, SOME_TEXT, Language, both, chain, outside, word, words
from sgrt_grammars.regex.spelling import UTF8, alternation, spell

Lower = Callable[[Constraint], Expression]
"""Lowers the parts of a combination."""


def sequence_expression(constraint: Sequence, lower: Lower) -> Expression:
    """The parts one after the other."""
    return Concatenation(tuple(lower(part) for part in constraint.parts))


def choice_expression(constraint: OneOf, lower: Lower) -> Expression:
    """Any one of the options."""
    if not constraint.options:
        raise InvalidConstraint("a choice needs at least one option")
    return alternation([lower(option) for option in constraint.options])


def repeat_expression(constraint: Repeat, lower: Lower) -> Expression:
    """The body, a number of times, with the separator between."""
    low, high = constraint.minimum, constraint.maximum
    if low < 0 or (high is not None and high < low):
        raise InvalidConstraint(f"a repetition of {low} to {high} times is impossible")
    body = lower(constraint.body)
    if not constraint.separator or high == 0:
        return Repetition(body, low, high)
    following = Concatenation((Literal(constraint.separator.encode()), body))
    some = Concatenation((body, Repetition(following, max(low - 1, 0), None if high is None else high - 1)))
    return some if low else Alternation((EMPTY_TEXT, some))


def tag_expression(constraint: Tag, lower: Lower) -> Expression:
    """Begin, body, end."""
    return Concatenation((lower(constraint.begin), lower(constraint.body), lower(constraint.end)))


def any_text_expression(constraint: AnyText) -> Expression:
    """Any text without the given ones."""
    return spell(text_without(constraint.without), UTF8)


def text_without(excluded: tuple[str, ...]) -> Language:
    """Texts in which none of the excluded texts occurs."""
    if not excluded:
        return ANY_TEXT
    if "" in excluded:
        raise InvalidConstraint("the empty text occurs in every text, so it cannot be excluded")
    return outside(chain(ANY_TEXT, words(excluded), ANY_TEXT))


def structural_expression(constraint: StructuralTag, lower: Lower) -> Expression:
    """Free text in which a trigger occurs only where one of its tags begins."""
    if not constraint.tags:
        raise InvalidConstraint("a structural tag needs at least one tag")
    free = spell(text_without(constraint.triggers), UTF8)
    segment = alternation(_segments(constraint, free, lower))
    if constraint.stop_after_first:
        return segment if constraint.required else Alternation((segment, free))
    return Concatenation((Repetition(segment, int(constraint.required), None), free))


def _segments(constraint: StructuralTag, free: Expression, lower: Lower) -> list[Expression]:
    """Free text up to a tag, and the tag: one option for every trigger and one for tags that are tokens."""
    by_trigger: dict[str, list[Expression]] = {}
    by_token: list[Expression] = []
    for tag in constraint.tags:
        first, rest = _opening(tag.begin)
        following = [*(lower(part) for part in rest), lower(tag.body), lower(tag.end)]
        if isinstance(first, Token):
            by_token.append(Concatenation((SpecialToken(first.token_id), *following)))
            continue
        trigger = _trigger_of(first.text, constraint.triggers)
        begin = Literal(first.text[len(trigger) :].encode())
        by_trigger.setdefault(trigger, []).append(Concatenation((begin, *following)))
    segments: list[Expression] = [
        Concatenation((spell(_up_to(trigger, constraint.triggers), UTF8), alternation(tags)))
        for trigger, tags in by_trigger.items()
    ]
    if by_token:
        segments.append(Concatenation((free, alternation(by_token))))
    return segments


def _opening(begin: Constraint) -> tuple[Text | Token, tuple[Constraint, ...]]:
    """The mark a tag begins with, and what else belongs to its beginning."""
    if isinstance(begin, Text | Token):
        return begin, ()
    if isinstance(begin, Sequence) and begin.parts:
        first, rest = _opening(begin.parts[0])
        return first, (*rest, *begin.parts[1:])
    raise InvalidConstraint("a tag in free text must begin with a text or a token")


def _trigger_of(begin: str, triggers: tuple[str, ...]) -> str:
    matching = [trigger for trigger in triggers if trigger and begin.startswith(trigger)]
    if not matching:
        raise InvalidConstraint(f"no trigger is a prefix of the tag that begins with {begin!r}")
    return min(matching, key=len)


def _up_to(trigger: str, triggers: tuple[str, ...]) -> Language:
    """Texts that end with the trigger, in which no trigger ends earlier."""
    return both(chain(ANY_TEXT, word(trigger)), outside(chain(ANY_TEXT, words(triggers), SOME_TEXT)))
