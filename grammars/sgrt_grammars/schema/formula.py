"""Formulas over the subschemas of one document: what the value of a child must satisfy.

Children stay formulas until a generation reaches them, so that recursion ends and large schemas cost nothing
up front. A formula is pure content: two equal formulas of one document denote the same values.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class At:
    """The subschema at a JSON pointer, entered through `scope`: the resources that `$dynamicRef` looks at."""

    pointer: str
    scope: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Not:
    """What does not satisfy `body`."""

    body: Formula


@dataclass(frozen=True, slots=True)
class All:
    """What satisfies every part; anything at all when there is none."""

    parts: frozenset[Formula]


@dataclass(frozen=True, slots=True)
class Some:
    """What satisfies one of the parts; nothing when there is none."""

    parts: frozenset[Formula]


Formula = At | Not | All | Some

ALWAYS = All(frozenset())
NEVER = Some(frozenset())


def negation(formula: Formula) -> Formula:
    """What does not satisfy the formula."""
    if formula == ALWAYS:
        return NEVER
    if formula == NEVER:
        return ALWAYS
    return formula.body if isinstance(formula, Not) else Not(formula)


def conjunction(*formulas: Formula) -> Formula:
    """What satisfies all formulas."""
    meant = [formula for formula in formulas if formula is not ALWAYS]
    if len(meant) < 2 or (len(meant) == 2 and meant[0] is meant[1]):
        return meant[0] if meant else ALWAYS
    parts: set[Formula] = set()
    for formula in meant:
        parts |= formula.parts if isinstance(formula, All) else {formula}
    if NEVER in parts or any(isinstance(part, Not) and part.body in parts for part in parts):
        return NEVER
    if not parts:
        return ALWAYS
    return next(iter(parts)) if len(parts) == 1 else All(frozenset(parts))


def disjunction(*formulas: Formula) -> Formula:
    """What satisfies at least one of the formulas."""
    parts: set[Formula] = set()
    for formula in formulas:
        parts |= formula.parts if isinstance(formula, Some) else {formula}
    if ALWAYS in parts or any(isinstance(part, Not) and part.body in parts for part in parts):
        return ALWAYS
    return next(iter(parts)) if len(parts) == 1 else Some(frozenset(parts))
