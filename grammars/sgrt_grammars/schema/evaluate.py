"""From formulas to shapes: what a subschema says with all it refers to."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urldefrag

from sgrt_grammars.regex.language import ANY_TEXT, Language
from sgrt_grammars.schema.applicators import APPLICATORS, evaluate_rest
from sgrt_grammars.schema.case import Case, united
from sgrt_grammars.schema.document import Document, Node
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.emptiness import Emptiness, LeadsBack
from sgrt_grammars.schema.formula import All, At, Formula, Not, Some
from sgrt_grammars.schema.local import child, typed_shape, value_shape
from sgrt_grammars.schema.sameness import Sameness
from sgrt_grammars.schema.seen import NONE_SEEN, seen_by
from sgrt_grammars.schema.shape import ANYTHING, NO_VALUE, Shape, intersect, unite

Scope = tuple[str, ...]


@dataclass(slots=True)
class Evaluator:
    """The shapes of one document's formulas, each worked out once."""

    document: Document
    constants: dict[str, object] = field(default_factory=dict)
    """Values inside `const` and `enum`, by a pointer that starts with `=`."""

    emptiness: Emptiness = field(init=False)
    _shapes: dict[Formula, Shape] = field(default_factory=dict)
    _open: set[tuple[str, Scope]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.emptiness = Emptiness(self.shape, Sameness(self.document, self.constants))

    @property
    def root(self) -> Formula:
        """The formula of the whole document."""
        return child(self.document.root.schema, "", ())

    def shape(self, formula: Formula) -> Shape:
        """The values that satisfy a formula."""
        known = self._shapes.get(formula)
        if known is None:
            known = self._shapes[formula] = self._shape(formula)
        return known

    def _shape(self, formula: Formula) -> Shape:
        match formula:
            case Not(body):
                return self.emptiness.difference(ANYTHING, self.shape(body))
            case All(parts):
                return self._conjunction(_ordered(parts))
            case Some(parts):
                return unite(self.shape(part) for part in _ordered(parts))
            case At(pointer, scope):
                if pointer in self.constants:
                    return value_shape(self.constants[pointer], pointer, self.constants)
                return united(self.cases(self.document.at(pointer), scope, is_tracking=False))

    def _conjunction(self, parts: list[Formula]) -> Shape:
        """The intersection; what is negated is taken away last, from what is left by then."""
        shape = ANYTHING
        for part in parts:
            if not isinstance(part, Not):
                shape = intersect(shape, self.shape(part))
        for part in parts:
            if isinstance(part, Not):
                shape = self.emptiness.difference(shape, self.shape(part.body))
        return shape

    def node_shape(self, node: Node, scope: Scope) -> Shape:
        """The shape of a subschema."""
        return self.shape(child(node.schema, node.pointer, scope))

    def cases(self, node: Node, scope: Scope, *, is_tracking: bool) -> list[Case]:
        """The ways to satisfy a subschema; one of them, without what was seen, unless `is_tracking`."""
        if isinstance(node.schema, bool):
            return [Case(ANYTHING if node.schema else NO_VALUE, NONE_SEEN)]
        if self.document.has_dynamic_references and node.resource not in scope:
            scope = (*scope, node.resource)
        if node.draft <= Draft.DRAFT_7 and "$ref" in node.schema:
            return self.referred(node, scope, "$ref", is_tracking=is_tracking)
        shape = typed_shape(node.schema, node.pointer, scope, self._names(node, scope))
        if APPLICATORS.keys().isdisjoint(node.schema):
            return [Case(shape, seen_by(node, scope) if is_tracking else NONE_SEEN)]
        place = (node.pointer, scope)
        if place in self._open:
            raise LeadsBack("a reference that leads back to itself says nothing", pointer=node.pointer)
        self._open.add(place)
        try:
            return self._combined(node, scope, shape, is_tracking=is_tracking)
        finally:
            self._open.discard(place)

    def _names(self, node: Node, scope: Scope) -> Language:
        assert isinstance(node.schema, dict), "booleans have no keywords"
        if "propertyNames" not in node.schema:
            return ANY_TEXT
        return self.shape(child(node.schema["propertyNames"], f"{node.pointer}/propertyNames", scope)).strings

    def _combined(self, node: Node, scope: Scope, shape: Shape, *, is_tracking: bool) -> list[Case]:
        """Local keywords and applicators together, in the order of the document: it is the order of members."""
        assert isinstance(node.schema, dict), "booleans have no keywords"
        has_unevaluated = "unevaluatedProperties" in node.schema or "unevaluatedItems" in node.schema
        is_inner_tracking = is_tracking or has_unevaluated
        local = Case(shape, seen_by(node, scope) if is_inner_tracking else NONE_SEEN)
        is_late = "properties" in node.schema
        cases = [Case(ANYTHING, NONE_SEEN) if is_late else local]
        for keyword in sorted(node.schema, key=_LAST.__contains__):
            if keyword == "properties":
                cases = [case.joined(local) for case in cases]
            elif keyword in APPLICATORS:
                cases = APPLICATORS[keyword](self, node, scope, cases, is_inner_tracking)
            cases = [case for case in cases if not case.shape.is_empty]
        if has_unevaluated:
            cases = [evaluate_rest(node, scope, case) for case in cases]
        if is_tracking:
            return cases
        shape = united(cases)
        is_choice = len(shape.objects) > 1 or len(shape.arrays) > 1
        return [Case(self.emptiness.pruned(shape) if is_choice else shape, NONE_SEEN)]

    def referred(self, node: Node, scope: Scope, keyword: str, *, is_tracking: bool) -> list[Case]:
        """The cases of what a reference leads to."""
        place = (f"{node.pointer}/{keyword}", scope)
        if place in self._open:
            raise LeadsBack(f"{keyword} leads back to itself without a value between", pointer=node.pointer)
        self._open.add(place)
        try:
            target = self._target(node, scope, keyword)
            if not is_tracking:
                return [Case(self.node_shape(target, scope), NONE_SEEN)]
            return self.cases(target, scope, is_tracking=True)
        finally:
            self._open.discard(place)

    def _target(self, node: Node, scope: Scope, keyword: str) -> Node:
        """The subschema a reference leads to, in its dynamic scope."""
        assert isinstance(node.schema, dict), "booleans have no keywords"
        reference = str(node.schema[keyword])
        target = self.document.resolve(node, reference, keyword)
        if keyword == "$ref" or not isinstance(target.schema, dict):
            return target
        if keyword == "$recursiveRef":
            return self._outermost_recursive(target, scope)
        name = urldefrag(reference)[1]
        if target.schema.get("$dynamicAnchor") != name:
            return target
        anchors = self.document.index.dynamic_anchors
        return next((anchors[resource, name] for resource in scope if (resource, name) in anchors), target)

    def _outermost_recursive(self, target: Node, scope: Scope) -> Node:
        assert isinstance(target.schema, dict), "booleans have no keywords"
        if target.schema.get("$recursiveAnchor") is not True:
            return target
        resources = self.document.index.resources
        for resource in scope:
            node = resources.get(resource)
            if (
                node is not None
                and isinstance(node.schema, dict)
                and node.schema.get("$recursiveAnchor") is True
            ):
                return node
        return target


_LAST = frozenset({"not"})
"""Taken away after everything else, from what is left by then."""


def _ordered(parts: frozenset[Formula]) -> list[Formula]:
    """A fixed order, so that members come in the order of the document."""
    return sorted(parts, key=repr)
