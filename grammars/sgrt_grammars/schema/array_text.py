"""How arrays of a shape are written."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from sgrt_grammars.constraint import Whitespace
from sgrt_grammars.expression import (
    EMPTY_TEXT,
    NOTHING,
    Alternation,
    Canonical,
    Concatenation,
    Deferred,
    Distinct,
    Expression,
    Literal,
    Repetition,
    Scope,
)
from sgrt_grammars.regex.language import Words, words
from sgrt_grammars.regex.spelling import alternation
from sgrt_grammars.schema.arrays import ArrayShape, Contains
from sgrt_grammars.schema.formula import NEVER, Formula, conjunction, negation
from sgrt_grammars.schema.json_text import comma, space
from sgrt_grammars.schema.shape import Shape

MAX_ENUMERATED = 512
"""Up to this many possible items, unique ones are tracked by name; more of them are captured and compared."""


class Values(Protocol):
    """Writes the values of formulas and shapes."""

    @property
    def whitespace(self) -> Whitespace:
        """Where whitespace may stand."""
        ...

    def value(self, formula: Formula) -> Expression:
        """Every value that satisfies a formula."""
        ...

    def shape_text(self, shape: Shape, key: Hashable) -> Expression:
        """Every value of a shape; `key` names it."""
        ...

    def shape(self, formula: Formula) -> Shape:
        """The shape of a formula."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayText:
    """Writes the arrays of one shape. `key` names the shape by content."""

    shape: ArrayShape
    key: Hashable
    values: Values

    def expression(self) -> Expression:
        """The whole array, with its brackets."""
        blank = space(self.values.whitespace)
        return Concatenation((Literal(b"["), blank, self._items(), Literal(b"]")))

    def _items(self) -> Expression:
        if self.shape.has_duplicates:
            choices = few_choices(self.shape, self.values.shape)
            assert choices is not None, (
                "other shapes that need duplicates are refused before they are written"
            )
            key = (self.key, "choice")
            texts = (self.values.shape_text(one, (key, index)) for index, one in enumerate(choices))
            return self._with_repetition(_Choices.of(texts, choices), frozenset())
        if self.shape.is_unique and not self.shape.prefix and not self.shape.contains:
            choices = few_choices(self.shape, self.values.shape)
            if choices is not None:
                key = (self.key, "choice")
                texts = (self.values.shape_text(one, (key, index)) for index, one in enumerate(choices))
                return self._without_repetition(_Choices.of(texts, choices), frozenset())
        items = self._counted(_Progress()) if self.shape.contains else self._plain()
        return Scope(items) if self.shape.is_unique else items

    # Items without counters: nested options for the first ones, a repetition for the rest.

    def _plain(self) -> Expression:
        shape, blank = self.shape, space(self.values.whitespace)
        if shape.maximum == 0:
            return EMPTY_TEXT
        num_first = len(shape.prefix)
        tail = self._rest_after(num_first)
        for index in reversed(range(num_first)):
            item = self._item(shape.prefix[index])
            if index:
                item = Concatenation((comma(self.values.whitespace), item))
            following = Concatenation((item, tail))
            tail = following if index < shape.minimum else Alternation((EMPTY_TEXT, following))
            if shape.maximum is not None and index >= shape.maximum:
                tail = EMPTY_TEXT if index >= shape.minimum else NOTHING
        if num_first:
            return Concatenation((tail, blank))
        return self._repeated(shape.rest)

    def _rest_after(self, count: int) -> Expression:
        """Further items after `count` ones, which is at least one."""
        shape = self.shape
        if shape.rest == NEVER or count == 0:
            return EMPTY_TEXT
        minimum = max(shape.minimum - count, 0)
        maximum = None if shape.maximum is None else max(shape.maximum - count, 0)
        item = Concatenation((comma(self.values.whitespace), self._item(shape.rest)))
        return Repetition(item, minimum, maximum)

    def _repeated(self, formula: Formula) -> Expression:
        shape, blank = self.shape, space(self.values.whitespace)
        if formula == NEVER:
            return EMPTY_TEXT if shape.minimum == 0 else NOTHING
        some = Concatenation((self._item(formula), self._rest_after(1), blank))
        return some if shape.minimum else Alternation((EMPTY_TEXT, some))

    def _item(self, formula: Formula) -> Expression:
        value = self.values.value(formula)
        return Distinct(value, Canonical.JSON) if self.shape.is_unique else value

    # Items that counters look at: the position and the counts are the state.

    def _counted(self, progress: _Progress) -> Expression:
        counts = progress.counts or (0,) * len(self.shape.contains)
        return self._state(replace(progress, counts=counts))

    def _state(self, progress: _Progress) -> Expression:
        return Deferred((self.key, "items", progress), partial(self._build, progress))

    def _build(self, progress: _Progress) -> Expression:
        options: list[Expression] = []
        if self._may_end(progress):
            options.append(space(self.values.whitespace) if progress.index else EMPTY_TEXT)
        if self._has_room(progress):
            for formula, counts in self._splits(progress):
                item = self._item(formula)
                if progress.index:
                    item = Concatenation((comma(self.values.whitespace), item))
                follower = _Progress(min(progress.index + 1, self._horizon), counts)
                options.append(Concatenation((item, self._state(follower))))
        return alternation(options)

    @property
    def _horizon(self) -> int:
        """From this many items on, a further one changes nothing but the counts."""
        shape = self.shape
        if shape.maximum is not None:
            return shape.maximum
        return max(len(shape.prefix), shape.minimum, 1, *(one.start for one in shape.contains))

    def _may_end(self, progress: _Progress) -> bool:
        pairs = zip(self.shape.contains, progress.counts, strict=True)
        return progress.index >= self.shape.minimum and all(count >= one.minimum for one, count in pairs)

    def _has_room(self, progress: _Progress) -> bool:
        if self.shape.maximum is None:
            return True
        pairs = zip(self.shape.contains, progress.counts, strict=True)
        room = self.shape.maximum - progress.index
        return room > 0 and all(one.minimum - count <= room for one, count in pairs)

    def _splits(self, progress: _Progress) -> Iterator[tuple[Formula, tuple[int, ...]]]:
        """The next item's formula for every way in which it may be counted, and the counts after it."""
        found: list[tuple[Formula, tuple[int, ...]]] = [(self.shape.item(progress.index), ())]
        for one, count in zip(self.shape.contains, progress.counts, strict=True):
            found = [
                (conjunction(formula, more), (*counts, after))
                for formula, counts in found
                for more, after in _counting(one, count, progress.index)
            ]
        return ((formula, counts) for formula, counts in found if formula != NEVER)

    # Unique items out of a few.

    def _without_repetition(self, choices: _Choices, used: frozenset[int]) -> Expression:
        key = (self.key, "unique", used)
        build = partial(self._build_unique, choices, used)
        num_needed = self.shape.minimum - len(used)
        left = [index for index in choices.plain if index not in used] if num_needed > 0 else []
        if len(left) < num_needed or self._most(choices) < self.shape.minimum:
            return Deferred(key, build)
        short = partial(self._build_shortest, choices, used, left[0] if left else None)
        return Deferred(key, build, True, short)

    def _with_repetition(self, choices: _Choices, used: frozenset[int]) -> Expression:
        """Further items, of which one at least stands already or comes twice."""
        return Deferred((self.key, "repeated", used), partial(self._build_repeated, choices, used))

    def _build_repeated(self, choices: _Choices, used: frozenset[int]) -> Expression:
        count = len(used)
        most = self.shape.maximum
        options: list[Expression] = []
        if used and (most is None or count < most):
            again = [choices.texts[index] for index in sorted(used)]
            item = Concatenation((comma(self.values.whitespace), alternation(choices.texts)))
            more = Repetition(
                item, max(self.shape.minimum - count - 1, 0), None if most is None else most - count - 1
            )
            options.append(Concatenation((alternation(again), more, space(self.values.whitespace))))
        if most is None or count + 1 < most:
            options += [
                Concatenation((text, self._with_repetition(choices, used | {index})))
                for index, text in enumerate(choices.texts)
                if index not in used
            ]
        separator = (comma(self.values.whitespace),) if used else ()
        return Concatenation((*separator, alternation(options)))

    def _build_shortest(self, choices: _Choices, used: frozenset[int], index: int | None) -> Expression:
        """The shortest item that is left, or the end: so no other sets of items are looked at for a completion."""
        if index is None:
            return space(self.values.whitespace) if used else EMPTY_TEXT
        separator = (comma(self.values.whitespace),) if used else ()
        following = self._without_repetition(choices, used | {index})
        return Concatenation((*separator, choices.texts[index], following))

    def _most(self, choices: _Choices) -> int:
        count = len(choices.texts)
        return count if self.shape.maximum is None else min(self.shape.maximum, count)

    def _build_unique(self, choices: _Choices, used: frozenset[int]) -> Expression:
        most = self._most(choices)
        if self.shape.minimum > most:
            return NOTHING
        options: list[Expression] = []
        if len(used) >= self.shape.minimum:
            options.append(space(self.values.whitespace) if used else EMPTY_TEXT)
        if len(used) < most:
            left = [
                Concatenation((text, self._without_repetition(choices, used | {index})))
                for index, text in enumerate(choices.texts)
                if index not in used
            ]
            separator = (comma(self.values.whitespace),) if used else ()
            options.append(Concatenation((*separator, alternation(left))))
        return alternation(options)


def few_choices(array: ArrayShape, shape_of: Callable[[Formula], Shape]) -> list[Shape] | None:
    """The possible items of an array one by one, when there are few and all of them are scalars."""
    shape = shape_of(array.rest)
    if shape.arrays or shape.objects or any(one.value is None for one in shape.numbers):
        return None
    if not isinstance(shape.strings, Words) or len(shape.strings.texts) > MAX_ENUMERATED:
        return None
    values = sorted({one.value for one in shape.numbers if one.value is not None})
    points = {one.value: one for one in shape.numbers}
    found = [Shape(null=True)] if shape.null else []
    found += [Shape(booleans=frozenset({one})) for one in sorted(shape.booleans)]
    found += [Shape(numbers=(points[value],)) for value in values]
    found += [Shape(strings=words([text])) for text in sorted(shape.strings.texts)]
    return found if len(found) <= MAX_ENUMERATED else None


def is_repetition_known(array: ArrayShape, shape_of: Callable[[Formula], Shape]) -> bool:
    """Whether arrays that must hold an item twice can be written: out of a few scalars, and nothing else asked."""
    return not array.prefix and not array.contains and few_choices(array, shape_of) is not None


@dataclass(frozen=True, slots=True)
class _Choices:
    """How the possible items are written. `plain`: those in printable ASCII, the shortest first."""

    texts: tuple[Expression, ...]
    plain: tuple[int, ...]

    @staticmethod
    def of(texts: Iterable[Expression], choices: list[Shape]) -> _Choices:
        """The items of some scalar shapes."""
        sizes = [(_plain_size(choice), index) for index, choice in enumerate(choices)]
        return _Choices(tuple(texts), tuple(index for size, index in sorted(sizes) if size))


def _plain_size(choice: Shape) -> int:
    """The size of a scalar's text; 0 where it takes more than printable ASCII."""
    if isinstance(choice.strings, Words) and choice.strings.texts:
        text = next(iter(choice.strings.texts))
        return len(text) + 2 if text.isascii() and text.isprintable() else 0
    return 5


@dataclass(frozen=True, slots=True)
class _Progress:
    """How many items stand, and how many of them each counter has counted."""

    index: int = 0
    counts: tuple[int, ...] = ()


def _counting(one: Contains, count: int, index: int) -> list[tuple[Formula, int]]:
    """How the next item may be counted: (what it must satisfy for that, the count after it)."""
    is_settled = one.maximum is None and count >= one.minimum
    if index < one.start or is_settled:
        return [(conjunction(), count)]
    options = [(negation(one.item), count)]
    if one.maximum is None or count < one.maximum:
        options.append((one.item, count + 1))
    return options
