"""What members that stand, or were passed over, mean for those to come, where members have a fixed order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sgrt_grammars.schema.objects import Implication

NO_NAMES: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Implied:
    """The implications of one object by the names in them: `needs` of triggers, `triggers` of what is needed."""

    needs: dict[str, frozenset[str]]
    triggers: dict[str, frozenset[str]]

    @staticmethod
    def of(implications: Iterable[Implication]) -> Implied:
        """Collect them."""
        needs: dict[str, frozenset[str]] = {}
        triggers: dict[str, frozenset[str]] = {}
        for one in implications:
            needed = one.needed - {one.trigger}
            needs[one.trigger] = needs.get(one.trigger, NO_NAMES) | needed
            for name in needed:
                triggers[name] = triggers.get(name, NO_NAMES) | {one.trigger}
        return Implied(needs, triggers)

    @property
    def names(self) -> frozenset[str]:
        """All names in the implications."""
        return frozenset(self.needs) | frozenset(self.triggers)

    def closed(self, names: frozenset[str]) -> frozenset[str]:
        """The names, and all that they need."""
        found, fresh = names, names
        while fresh:
            fresh = NO_NAMES.union(*(self.needs.get(name, NO_NAMES) for name in fresh)) - found
            found |= fresh
        return found


@dataclass(frozen=True, slots=True)
class Debts:
    """Names that must still come, and triggers that may not, as what they need was passed over.

    Which members stand already matters in no other way, so that few such states arise.
    """

    due: frozenset[str] = NO_NAMES
    barred: frozenset[str] = NO_NAMES

    def after_passing(self, name: str, implied: Implied) -> Debts:
        """The member was passed over."""
        triggers = implied.triggers.get(name)
        return Debts(self.due, self.barred - {name} | triggers) if triggers else self._without(name)

    def after_writing(self, name: str, implied: Implied, later: frozenset[str]) -> Debts:
        """The member stands; `later` are those that come after it."""
        needs = implied.needs.get(name, NO_NAMES) & later
        return Debts((self.due - {name}) | needs, self.barred & later)

    def _without(self, name: str) -> Debts:
        return Debts(self.due, self.barred - {name}) if name in self.barred else self


NO_DEBTS = Debts()
