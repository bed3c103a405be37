"""Subschemas that say the same wherever they stand: copies of one text, which generators of schemas like to make.

What lies in one copy and not in another is nothing, so that telling alternatives apart stays small.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from decimal import Decimal

from sgrt_grammars.schema.document import Document
from sgrt_grammars.schema.formula import All, At, Formula, Not
from sgrt_grammars.schema.keywords import KEYWORDS, Children, Treatment

_NAMING = frozenset({"$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"})


@dataclass(slots=True)
class Sameness:
    """Compares the subschemas of one document; `constants` holds values inside `const` and `enum`, by pointer."""

    document: Document
    constants: dict[str, object]
    _meanings: dict[str, str] = field(default_factory=dict)

    def is_contradiction(self, formula: Formula) -> bool:
        """Whether the formula asks for a subschema and for the opposite of a copy of it."""
        if not isinstance(formula, All):
            return False
        wanted = [part for part in formula.parts if isinstance(part, At)]
        refused = [part.body for part in formula.parts if isinstance(part, Not) and isinstance(part.body, At)]
        return any(self.are_same(one, other) for one in wanted for other in refused)

    def are_same(self, one: At, other: At) -> bool:
        """Whether two subschemas evidently say the same."""
        if one.scope != other.scope:
            return False
        meaning = self._meaning(one.pointer)
        return bool(meaning) and meaning == self._meaning(other.pointer)

    def _meaning(self, pointer: str) -> str:
        """What a subschema says, as text; empty where that depends on its place."""
        known = self._meanings.get(pointer)
        if known is None:
            known = self._meanings[pointer] = self._read(pointer)
        return known

    def _read(self, pointer: str) -> str:
        if pointer in self.constants:
            return "=" + _text(self.constants[pointer])
        node = self.document.at(pointer)
        try:
            return f"{node.resource} {node.draft.value} {_text(_said(node.schema))}"
        except _DependsOnPlace:
            return ""


class _DependsOnPlace(Exception):
    """The subschema sets names or bases of references."""


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=_number)


def _number(value: object) -> dict[str, str]:
    assert isinstance(value, Decimal), "parsed JSON holds nothing else"
    return {"decimal": str(value)}


def _said(schema: object) -> object:
    """The keywords that count, without annotations and definitions."""
    if not isinstance(schema, dict):
        return schema
    if not _NAMING.isdisjoint(schema):
        raise _DependsOnPlace
    said: dict[str, object] = {}
    for name, operand in schema.items():
        row = KEYWORDS.get(name)
        if row is None or row.treatment is Treatment.ANNOTATION or row.children is Children.DEFINITIONS:
            continue
        said[name] = operand if row.children is Children.NONE else _children(operand, row.children)
    return said


def _children(operand: object, children: Children) -> object:
    if isinstance(operand, list):
        return [_said(one) for one in operand]
    if isinstance(operand, dict) and children in (Children.MAP, Children.MAP_OR_NAMES):
        return {name: _said(one) for name, one in operand.items()}
    return _said(operand)
