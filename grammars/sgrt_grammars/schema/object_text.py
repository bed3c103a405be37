"""How objects of a shape are written: declared keys in their order, then required ones, then free ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sgrt_grammars.expression import (
    EMPTY_TEXT,
    NOTHING,
    Canonical,
    Concatenation,
    Deferred,
    Distinct,
    Expression,
    Literal,
    Members,
    Repetition,
    Scope,
)
from sgrt_grammars.regex.language import Language
from sgrt_grammars.regex.spelling import alternation
from sgrt_grammars.schema.array_text import Values
from sgrt_grammars.schema.formula import ALWAYS, NEVER, Formula, conjunction
from sgrt_grammars.schema.free_keys import KeySpace, key_spaces, split_by_counters, ways
from sgrt_grammars.schema.implied import NO_DEBTS, NO_NAMES, Debts, Implied
from sgrt_grammars.schema.json_text import colon, comma, quoted, space
from sgrt_grammars.schema.json_text import key as key_text
from sgrt_grammars.schema.objects import ObjectShape, speaks_of


class Progress(NamedTuple):
    """How far an object was written.

    `place`: members before it are written or passed over. `size`: properties so far, as far as a bound cares.
    `counts`: of the shape's counters. `debts`: of implications, where the order is fixed.
    `written`: the members that stand already, by bits, where the order is free.
    """

    place: int
    size: int
    counts: tuple[int, ...]
    debts: Debts = NO_DEBTS
    written: int = 0


@dataclass(slots=True, kw_only=True)
class ObjectText:
    """Writes the objects of one shape. `key` names the shape by content."""

    shape: ObjectShape
    key: Hashable
    values: Values
    _names: list[str] = field(init=False)
    _places: dict[str, int] = field(init=False)
    _required_after: list[int] = field(init=False)
    _implied: Implied = field(init=False)
    _later: list[frozenset[str]] = field(init=False)
    _spaces: list[KeySpace] | None = field(init=False, default=None)
    _beginnings: dict[tuple[str, Formula], Expression] = field(init=False, default_factory=dict)
    _sound: list[bool] | None = field(init=False, default=None)
    _spares: list[int] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._names = list(self.shape.members)
        self._places = {name: index for index, name in enumerate(self._names)}
        self._implied = Implied.of(self.shape.implications)
        involved = self._implied.names
        self._later = [involved]
        for name in self._names:
            self._later.append(self._later[-1] - {name} if name in involved else self._later[-1])
        self._required_after = [0] * (len(self._names) + 1)
        for index in reversed(range(len(self._names))):
            self._required_after[index] = self._required_after[index + 1] + (
                self._names[index] in self.shape.required
            )

    def expression(self) -> Expression:
        """The whole object, with its braces."""
        inside = self._members_in_order() if self._is_plain else self._inside()
        return Concatenation((Literal(b"{"), space(self.values.whitespace), inside, Literal(b"}")))

    @property
    def _is_plain(self) -> bool:
        """Whether what may follow depends on nothing but the place."""
        shape = self.shape
        is_counted = shape.counts or shape.implications or shape.minimum or shape.maximum is not None
        return not is_counted and all(shape.members[name].value != NEVER for name in shape.required)

    def _inside(self) -> Expression:
        start = Progress(0, 0, (0,) * len(self.shape.counts))
        options = [self._keys(start)]
        if self._may_end(start):
            options.append(EMPTY_TEXT)
        return alternation(options)

    def _members_in_order(self) -> Expression:
        """All states at once, of which the automaton makes what it reaches."""
        names = [name for name in self._names if self.shape.members[name].value != NEVER]
        is_sound = self._sound_after
        sound_from = sum(not is_sound[index] for index, name in enumerate(self._names) if name in names)
        free = self._free_options(Progress(len(self._names), 0, ()))
        return Members(
            key=self.key,
            names=tuple(quoted(name) for name in names),
            values=tuple(self.values.value(self.shape.members[name].value) for name in names),
            required=tuple(name in self.shape.required for name in names),
            between=colon(self.values.whitespace),
            separator=comma(self.values.whitespace),
            end=space(self.values.whitespace),
            free=alternation(free),
            sound_from=sound_from,
        )

    # After a member: the end, or a comma and a further key.

    def _after(self, progress: Progress) -> Expression:
        key = (self.key, "after", progress)
        build = partial(self._build_after, progress)
        if not self._ends_by_due_members(progress):
            return Deferred(key, build, self._may_end(progress), self._short_build(progress))
        is_satisfiable = self._may_end(progress) or self._are_due_members_evident(progress)
        return Deferred(key, build, is_satisfiable, partial(self._build_shortest, progress))

    def _build_shortest(self, progress: Progress) -> Expression:
        """The next member that must come, or the end: possible if any text is, where `_ends_by_due_members`."""
        due = (member for member in self._members(progress) if self._is_due(member[0], progress))
        for name, value, after in due:
            return Concatenation(
                (comma(self.values.whitespace), self._member(name, value), self._after(after))
            )
        return space(self.values.whitespace) if self._may_end(progress) else NOTHING

    # The short form where more than due members bars the end: members in their order, one decision after the other, then
    # free keys. Completions are looked for in as many states as there are members, however many sets of them there are.
    # `written` speaks of members from `place` on (none in this order).

    def _short_build(self, progress: Progress) -> Callable[[], Expression]:
        """Builds that form of what follows."""
        return partial(self._build_finish, progress)

    def _finish(self, progress: Progress) -> Expression:
        written = progress.written >> progress.place << progress.place
        progress = progress._replace(written=written)
        return Deferred((self.key, "finish", progress), partial(self._build_finish, progress))

    def _build_finish(self, progress: Progress) -> Expression:
        more = Concatenation((comma(self.values.whitespace), self._next(progress)))
        if progress.debts.due or self._num_required(progress) or not self._is_enough(progress):
            return more
        return alternation([space(self.values.whitespace), more])

    def _next(self, progress: Progress) -> Expression:
        return Deferred((self.key, "next", progress), partial(self._build_next, progress))

    def _build_next(self, progress: Progress) -> Expression:
        """One more key must come: that of the next member, or a later one."""
        place = progress.place
        while progress.written >> place & 1:
            place += 1
        if place >= len(self._names):
            return alternation(self._free_ends(progress._replace(place=place)))
        name = self._names[place]
        options: list[Expression] = []
        num_due = self._num_required(progress._replace(place=place + 1))
        if self._is_possible(name, progress.debts) and self._has_room(progress.size + 1 + num_due):
            later = self._later[place + 1]
            later -= {one for one in later if progress.written >> self._places[one] & 1}
            after = progress._replace(
                place=place + 1,
                size=self._grown(progress.size),
                debts=progress.debts.after_writing(name, self._implied, later),
            )
            for formula, counts in self._counted(name, self.shape.members[name].value, progress.counts):
                follower = self._finish(after._replace(counts=counts))
                options.append(Concatenation((self._member(name, formula), follower)))
        if name not in self.shape.required and name not in progress.debts.due:
            debts = progress.debts.after_passing(name, self._implied)
            options.append(self._next(progress._replace(place=place + 1, debts=debts)))
        return alternation(options)

    def _num_required(self, progress: Progress) -> int:
        """How many required members are missing from `place` on."""
        return self._required_after[progress.place]

    def _free_ends(self, progress: Progress) -> list[Expression]:
        return self._free_options(progress)

    def _is_due(self, name: str, progress: Progress) -> bool:
        """Whether the short form writes the member: it must come, or helps to reach the least size."""
        if name in self.shape.required or name in self._implied_after(progress):
            return True
        size = progress.size + self._num_due(progress)
        return size < self.shape.minimum and self._is_spare(name)

    def _num_due(self, progress: Progress) -> int:
        """How many members must still come."""
        return self._required_after[progress.place] + len(self._implied_after(progress))

    def _implied_after(self, progress: Progress) -> frozenset[str]:
        """Members that must still come, not for being required but for what present and coming triggers need."""
        if not self.shape.implications:
            return NO_NAMES
        coming = frozenset(name for name in self.shape.required if self._places[name] >= progress.place)
        found = self._implied.closed(progress.debts.due | coming) - coming
        return frozenset(name for name in found if self._places[name] >= progress.place)

    def _ends_by_due_members(self, progress: Progress) -> bool:
        """Whether nothing but due members bars the end, so that it can be reached if it can be reached at all."""
        if self.shape.counts:
            return False
        size = progress.size + self._num_due(progress)
        is_enough = size + self._spares_after[progress.place] >= self.shape.minimum
        return is_enough and self._has_room(max(size, self.shape.minimum))

    def _are_due_members_evident(self, progress: Progress) -> bool:
        """Whether all members that must come evidently have values, so that nothing need be tried."""
        implied = self._implied_after(progress)
        is_evident = all(self._has_evident_value(name) for name in implied)
        return self._sound_after[progress.place] and is_evident and not progress.debts.barred

    @property
    def _sound_after(self) -> list[bool]:
        """For every place, whether all required members from there on have evidently possible values."""
        if self._sound is None:
            sound = [True] * (len(self._names) + 1)
            for index in reversed(range(len(self._names))):
                name = self._names[index]
                is_sound = name not in self.shape.required or self._has_evident_value(name)
                sound[index] = sound[index + 1] and is_sound
            self._sound = sound
        return self._sound

    @property
    def _spares_after(self) -> list[int]:
        """For every place, how many spare members there are from there on (none are counted where none are needed)."""
        if self._spares is None:
            spares = [0] * (len(self._names) + 1)
            for index in reversed(range(len(self._names))) if self.shape.minimum else ():
                spares[index] = spares[index + 1] + self._is_spare(self._names[index])
            self._spares = spares
        return self._spares

    def _is_spare(self, name: str) -> bool:
        """Whether the member may be written or not, as one likes."""
        is_bound = name in self.shape.required or name in self._later[0]
        return not is_bound and self._has_evident_value(name)

    def _has_evident_value(self, name: str) -> bool:
        value = self.values.value(self.shape.members[name].value)
        is_evident = not isinstance(value, Deferred) or value.is_satisfiable
        return is_evident and name.isascii() and name.isprintable()

    def _build_after(self, progress: Progress) -> Expression:
        options: list[Expression] = []
        keys = self._keys(progress)
        if keys is not NOTHING:
            options.append(Concatenation((comma(self.values.whitespace), keys)))
        if self._may_end(progress):
            options.append(space(self.values.whitespace))
        return alternation(options)

    def _keys(self, progress: Progress) -> Expression:
        """A key must come now."""
        options: list[Expression] = [
            Concatenation((self._member(name, value), self._after(after)))
            for name, value, after in self._members(progress)
        ]
        return alternation(options + self._free_options(progress))

    def _member(self, name: str, value: Formula) -> Expression:
        """A key with its value; written once, whatever surrounds it."""
        found = self._beginnings.get((name, value))
        if found is None:
            between = colon(self.values.whitespace)
            found = Concatenation((Literal(quoted(name)), between, self.values.value(value)))
            self._beginnings[name, value] = found
        return found

    def _members(self, progress: Progress) -> Iterator[tuple[str, Formula, Progress]]:
        """The members that may be written now: all up to the first that must not be passed over."""
        due, debts = progress.debts.due, progress.debts
        if due and not self._has_room(progress.size + self._num_due(progress)):
            return
        size = self._grown(progress.size)
        for index in range(progress.place, len(self._names)):
            name = self._names[index]
            value = self.shape.members[name].value
            is_fitting = self._has_room(progress.size + 1 + self._required_after[index + 1])
            if is_fitting and self._is_possible(name, debts):
                after = debts.after_writing(name, self._implied, self._later[index + 1])
                for formula, counts in self._counted(name, value, progress.counts):
                    yield name, formula, Progress(index + 1, size, counts, after)
            if name in self.shape.required or name in due:
                return
            debts = debts.after_passing(name, self._implied)

    def _is_possible(self, name: str, debts: Debts) -> bool:
        """Whether the member has a value, and what it needs can come or stands."""
        if self.shape.members[name].value == NEVER or name in debts.barred:
            return False
        needs = self._implied.needs.get(name, NO_NAMES)
        return all(self.shape.members[needed].value != NEVER for needed in needs)

    def _has_room(self, size: int) -> bool:
        return self.shape.maximum is None or size <= self.shape.maximum

    def _grown(self, size: int) -> int:
        """One property more, as far as a bound cares."""
        limit = self.shape.minimum if self.shape.maximum is None else self.shape.maximum
        return min(size + 1, limit)

    def _counted(
        self, name: str, value: Formula, counts: tuple[int, ...]
    ) -> Iterator[tuple[Formula, tuple[int, ...]]]:
        """The member's formula for every way in which the counters may count it."""
        if not counts:
            return iter(((value, ()),))
        found: list[tuple[Formula, tuple[int, ...]]] = [(value, ())]
        for one, count in zip(self.shape.counts, counts, strict=True):
            options = ways(one, count) if speaks_of(one.keys, name) else [(ALWAYS, count)]
            found = [
                (conjunction(formula, more), (*before, after))
                for formula, before in found
                for more, after in options
            ]
        return ((formula, after) for formula, after in found if formula != NEVER)

    def _may_leave_members(self, progress: Progress) -> bool:
        return self._required_after[progress.place] == 0 and not progress.debts.due

    def _may_end(self, progress: Progress) -> bool:
        return self._is_enough(progress) and self._may_leave_members(progress)

    def _is_enough(self, progress: Progress) -> bool:
        """Whether the least size and all least counts are reached."""
        pairs = zip(self.shape.counts, progress.counts, strict=True)
        return progress.size >= self.shape.minimum and all(count >= one.minimum for one, count in pairs)

    # Free keys: never twice the same one, split by the rules that speak about them.

    def _free_options(self, progress: Progress) -> list[Expression]:
        """Free keys, when no member has to come before them."""
        is_reached = self._may_leave_members(progress) and self._has_room(progress.size + 1)
        if not is_reached or not self._key_spaces():
            return []
        start = Progress(len(self._names), progress.size, progress.counts)
        return [Deferred((self.key, "free", start), partial(self._build_free, start))]

    def _build_free(self, progress: Progress) -> Expression:
        blank = space(self.values.whitespace)
        is_counted = self.shape.maximum is not None or progress.size < self.shape.minimum or self.shape.counts
        if is_counted:
            return Scope(self._free_entry(progress))
        entry = alternation([self._entry(one.keys, one.value) for one in self._key_spaces()])
        more = Repetition(Concatenation((comma(self.values.whitespace), entry)), 0, None)
        return Concatenation((Scope(Concatenation((entry, more))), blank))

    def _entry(self, keys: Language, value: Formula) -> Expression:
        name = Distinct(key_text(keys), Canonical.BYTES)
        return Concatenation((name, colon(self.values.whitespace), self.values.value(value)))

    def _free_entry(self, progress: Progress) -> Expression:
        """One more free member must come now; bounds and counters look at it."""
        return Deferred((self.key, "entry", progress), partial(self._build_free_entry, progress))

    def _build_free_entry(self, progress: Progress) -> Expression:
        options: list[Expression] = []
        for space_ in self._key_spaces():
            for keys, value, counts in split_by_counters(space_, self.shape.counts, progress.counts):
                after = progress._replace(size=self._grown(progress.size), counts=counts)
                options.append(Concatenation((self._entry(keys, value), self._after_free(after))))
        return alternation(options)

    def _after_free(self, progress: Progress) -> Expression:
        return Deferred((self.key, "after free", progress), partial(self._build_after_free, progress))

    def _build_after_free(self, progress: Progress) -> Expression:
        options: list[Expression] = []
        if self._may_end(progress):
            options.append(space(self.values.whitespace))
        if self._has_room(progress.size + 1):
            options.append(Concatenation((comma(self.values.whitespace), self._free_entry(progress))))
        return alternation(options)

    def _key_spaces(self) -> list[KeySpace]:
        if self._spaces is None:
            self._spaces = key_spaces(self.shape)
        return self._spaces
