"""How objects of a shape are written when their keys may come in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from sgrt_grammars.expression import (
    EMPTY_TEXT,
    NOTHING,
    Concatenation,
    Expression,
    Literal,
    Scope,
)
from sgrt_grammars.regex.spelling import alternation
from sgrt_grammars.schema.formula import NEVER, Formula
from sgrt_grammars.schema.free_keys import split_by_counters
from sgrt_grammars.schema.implied import NO_NAMES, Debts
from sgrt_grammars.schema.json_text import comma, space
from sgrt_grammars.schema.object_text import ObjectText, Progress


@dataclass(slots=True, kw_only=True)
class AnyOrderText(ObjectText):
    """Members and free keys mixed: which members stand already, as bits, is part of the state."""

    _required: int = field(init=False)
    _impossible: int = field(init=False)
    _implications: list[tuple[int, int]] = field(init=False)
    _evident: int | None = field(init=False, default=None)
    _spare: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        ObjectText.__post_init__(self)
        self._required = self._bits(self.shape.required)
        self._impossible = self._bits(name for name, one in self.shape.members.items() if one.value == NEVER)
        self._implications = [
            (self._bits([one.trigger]), self._bits(one.needed)) for one in self.shape.implications
        ]

    def _bits(self, names: Iterable[str]) -> int:
        return sum(1 << self._places[name] for name in names)

    def expression(self) -> Expression:
        """The whole object, with its braces. One scope holds all its free keys."""
        start = Progress(0, 0, (0,) * len(self.shape.counts))
        options = [self._keys(start)]
        if self._may_end(start):
            options.append(EMPTY_TEXT)
        inside = alternation(options)
        if self._key_spaces():
            inside = Scope(inside)
        return Concatenation((Literal(b"{"), space(self.values.whitespace), inside, Literal(b"}")))

    def _members(self, progress: Progress) -> Iterator[tuple[str, Formula, Progress]]:
        barred = progress.written | self._impossible
        for index in range(len(self._names)):
            if not barred >> index & 1:
                yield from self._member_at(index, progress)

    def _member_at(self, index: int, progress: Progress) -> Iterator[tuple[str, Formula, Progress]]:
        """One member, where it leaves room for what must come with it."""
        name = self._names[index]
        written = progress.written | 1 << index
        missing = self._missing(written)
        if missing & self._impossible or not self._has_room(progress.size + 1 + missing.bit_count()):
            return
        size = self._grown(progress.size)
        for formula, counts in self._counted(name, self.shape.members[name].value, progress.counts):
            yield name, formula, Progress(0, size, counts, written=written)

    def _build_shortest(self, progress: Progress) -> Expression:
        """All members that must come at once: states between them would be one for each set of what is left."""
        parts: list[Expression] = []
        while due := self._next_due(progress):
            name, value, progress = due
            parts += [comma(self.values.whitespace), self._member(name, value)]
        parts.append(space(self.values.whitespace) if self._may_end(progress) else NOTHING)
        return Concatenation(tuple(parts))

    def _next_due(self, progress: Progress) -> tuple[str, Formula, Progress] | None:
        """The first member that the short form writes now, and what stands then."""
        missing = self._missing(progress.written)
        is_enough = progress.size + missing.bit_count() >= self.shape.minimum
        if is_enough and not missing:
            return None
        members = self._members(progress)
        if is_enough and not self._implications:
            index = (missing & -missing).bit_length() - 1
            members = self._member_at(index, progress)
        return next((one for one in members if self._is_due(one[0], progress)), None)

    def _short_build(self, progress: Progress) -> Callable[[], Expression]:
        """What still comes has the members' order, and free keys come last: any order reaches no more than that."""
        written = frozenset(name for name in self._later[0] if progress.written >> self._places[name] & 1)
        due = NO_NAMES.union(*(self._implied.needs.get(name, NO_NAMES) for name in written)) - written
        return partial(self._build_finish, progress._replace(debts=Debts(due)))

    def _num_required(self, progress: Progress) -> int:
        return ((self._required & ~progress.written) >> progress.place).bit_count()

    def _free_ends(self, progress: Progress) -> list[Expression]:
        free = self._free_members(progress._replace(written=0), num_due=0)
        return [Concatenation((entry, self._finish(after))) for entry, after in free]

    def _is_due(self, name: str, progress: Progress) -> bool:
        missing = self._missing(progress.written)
        if missing & self._bits([name]):
            return True
        return progress.size + missing.bit_count() < self.shape.minimum and self._is_spare(name)

    def _missing(self, written: int) -> int:
        """Members that must still come: required ones and those that present or coming triggers need."""
        present = written | self._required
        previous = -1
        while present != previous:
            previous = present
            for trigger, needed in self._implications:
                if present & trigger:
                    present |= needed
        return present & ~written

    def _ends_by_due_members(self, progress: Progress) -> bool:
        if self.shape.counts:
            return False
        missing = self._missing(progress.written)
        size = progress.size + missing.bit_count()
        spares = self._spare_members & ~(progress.written | missing)
        is_enough = size + spares.bit_count() >= self.shape.minimum
        return is_enough and self._has_room(max(size, self.shape.minimum))

    def _are_due_members_evident(self, progress: Progress) -> bool:
        return not self._missing(progress.written) & ~self._evident_members

    @property
    def _evident_members(self) -> int:
        """The members whose values are evidently possible."""
        if self._evident is None:
            self._evident = self._bits(name for name in self._names if self._has_evident_value(name))
        return self._evident

    @property
    def _spare_members(self) -> int:
        """The members that may be written or not, as one likes (none where none are needed)."""
        if self._spare is None:
            names = self._names if self.shape.minimum else []
            self._spare = self._bits(name for name in names if self._is_spare(name))
        return self._spare

    def _is_spare(self, name: str) -> bool:
        """Whether the member may be written as one likes, alone or (where there is room) with all that it needs."""
        if self.shape.maximum is not None or name in self.shape.required:
            return ObjectText._is_spare(self, name)
        return all(self._has_evident_value(one) for one in self._implied.closed(frozenset({name})))

    def _may_leave_members(self, progress: Progress) -> bool:
        return not self._missing(progress.written)

    def _free_options(self, progress: Progress) -> list[Expression]:
        num_due = self._missing(progress.written).bit_count()
        free = self._free_members(progress, num_due)
        return [Concatenation((entry, self._after(after))) for entry, after in free]

    def _free_members(self, progress: Progress, num_due: int) -> Iterator[tuple[Expression, Progress]]:
        if not self._has_room(progress.size + 1 + num_due):
            return
        for space_ in self._key_spaces():
            for keys, value, counts in split_by_counters(space_, self.shape.counts, progress.counts):
                after = progress._replace(size=self._grown(progress.size), counts=counts)
                yield self._entry(keys, value), after
