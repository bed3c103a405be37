"""References that say nothing but what they lead to."""

from __future__ import annotations

from dataclasses import dataclass, field

from sgrt_grammars.schema.document import Document, Node
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.formula import At, Formula
from sgrt_grammars.schema.local import child
from sgrt_grammars.schema.plain import OPERATIVE

MAX_HOPS = 16
"""References that are followed one after the other."""


@dataclass(frozen=True, slots=True)
class References:
    """The references of one document, each resolved once."""

    document: Document
    _targets: dict[str, Formula] = field(default_factory=dict)

    def target(self, formula: At) -> Formula:
        """What a formula that only refers to another leads to in the end; itself if it says something."""
        if self.document.has_dynamic_references:
            return formula
        for _ in range(MAX_HOPS):
            node = self.document.at(formula.pointer)
            reference = _reference(node)
            if reference is None:
                return formula
            name = f"{node.resource}\n{reference}"
            found = self._targets.get(name)
            if found is None:
                other = self.document.resolve(node, reference, "$ref")
                found = self._targets[name] = child(other.schema, other.pointer, ())
            if not isinstance(found, At):
                return found
            formula = found
        return formula


def _reference(node: Node) -> str | None:
    """The reference of a subschema that says nothing else."""
    if isinstance(node.schema, bool) or "$ref" not in node.schema:
        return None
    if node.draft > Draft.DRAFT_7 and node.schema.keys() & OPERATIVE != {"$ref"}:
        return None
    return str(node.schema["$ref"])
