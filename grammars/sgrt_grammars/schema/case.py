"""Cases: the ways in which a value can be valid, each with what was evaluated then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sgrt_grammars.schema.seen import Seen
from sgrt_grammars.schema.shape import Shape, intersect, unite


@dataclass(frozen=True, slots=True)
class Case:
    """One way for a value to be valid, and the members and items that were then evaluated."""

    shape: Shape
    seen: Seen

    def joined(self, other: Case) -> Case:
        """Both at once; this one's members come first."""
        return Case(intersect(self.shape, other.shape), self.seen | other.seen)


def united(cases: Iterable[Case]) -> Shape:
    """The values of any of the cases."""
    return unite(case.shape for case in cases)
