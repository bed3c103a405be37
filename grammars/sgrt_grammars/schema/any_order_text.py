"""How objects of a shape are written when their keys may come in any order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sgrt_grammars.expression import EMPTY_TEXT, Concatenation, Expression, Literal, Scope
from sgrt_grammars.regex.spelling import alternation
from sgrt_grammars.schema.formula import NEVER, Formula
from sgrt_grammars.schema.json_text import space
from sgrt_grammars.schema.object_text import ObjectText, Progress


@dataclass(slots=True, kw_only=True)
class AnyOrderText(ObjectText):
    """Members and free keys mixed: which members stand already is part of the state."""

    def expression(self) -> Expression:
        """The whole object, with its braces. One scope holds all its free keys."""
        start = Progress(counts=(0,) * len(self.shape.counts))
        options = [self._keys(start)]
        if self._may_end(start):
            options.append(EMPTY_TEXT)
        inside = alternation(options)
        if self._key_spaces():
            inside = Scope(inside)
        return Concatenation((Literal(b"{"), space(self.values.whitespace), inside, Literal(b"}")))

    def _members(self, progress: Progress) -> Iterator[tuple[str, Formula, Progress]]:
        for index, name in enumerate(self._names):
            value = self.shape.members[name].value
            if progress.written >> index & 1 or value == NEVER:
                continue
            after = replace(progress, written=progress.written | 1 << index, size=self._grown(progress.size))
            missing = self._missing(after)
            if not self._has_room(progress.size + 1 + len(missing)) or self._is_impossible(missing):
                continue
            for formula, counts in self._counted(name, value, progress.counts):
                yield name, formula, replace(after, counts=counts)

    def _missing(self, progress: Progress) -> frozenset[str]:
        """Members that must still come: required ones and those that present triggers need."""
        missing = {name for index, name in enumerate(self._names) if self._must_come(index, name, progress)}
        for one in self.shape.implications:
            if self._is_written(one.trigger, progress):
                missing |= {name for name in one.needed if not self._is_written(name, progress)}
        return frozenset(missing)

    def _must_come(self, index: int, name: str, progress: Progress) -> bool:
        return name in self.shape.required and not progress.written >> index & 1

    def _is_written(self, name: str, progress: Progress) -> bool:
        return bool(progress.written >> self._places[name] & 1)

    def _is_impossible(self, missing: frozenset[str]) -> bool:
        return any(self.shape.members[name].value == NEVER for name in missing)

    def _may_leave_members(self, progress: Progress) -> bool:
        return not self._missing(progress)

    def _free_options(self, progress: Progress) -> list[Expression]:
        if not self._has_room(progress.size + 1 + len(self._missing(progress))):
            return []
        options: list[Expression] = []
        for space_ in self._key_spaces():
            for keys, value, counts in self._split_by_counters(space_, progress.counts):
                after = replace(progress, size=self._grown(progress.size), counts=counts)
                options.append(Concatenation((self._entry(keys, value), self._after(after))))
        return options
