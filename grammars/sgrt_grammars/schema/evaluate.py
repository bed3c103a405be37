"""From formulas to shapes: references, applicators on the same value, and `unevaluated*`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import urldefrag

from sgrt_grammars.errors import InvalidConstraint
from sgrt_grammars.regex.language import ANY_TEXT, Language, either, outside
from sgrt_grammars.schema.arrays import ArrayShape, normalized
from sgrt_grammars.schema.document import Document, Node
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.formula import ALWAYS, NEVER, All, At, Formula, Not, Some, disjunction
from sgrt_grammars.schema.local import child, enumeration_shape, typed_shape, value_shape
from sgrt_grammars.schema.objects import Member, ObjectShape, Rule
from sgrt_grammars.schema.seen import NONE_SEEN, Seen, seen_by
from sgrt_grammars.schema.shape import ANYTHING, NO_VALUE, Shape, complement, intersect, unite

Scope = tuple[str, ...]

_IN_PLACE = frozenset(
    {"$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies"}
    | {"const", "enum", "unevaluatedItems", "unevaluatedProperties"}
)
_MAX_VOID_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Case:
    """One way for a value to be valid, and the members and items that were then evaluated."""

    shape: Shape
    seen: Seen


@dataclass(slots=True)
class Evaluator:
    """The shapes of one document's formulas, each worked out once."""

    document: Document
    _shapes: dict[Formula, Shape] = field(default_factory=dict)
    _constants: dict[str, object] = field(default_factory=dict)
    _open: set[tuple[str, Scope]] = field(default_factory=set)
    _void: dict[Formula, bool] = field(default_factory=dict)

    @property
    def root(self) -> Formula:
        """The formula of the whole document."""
        root = self.document.root
        return child(root.schema, root.pointer, ())

    def shape(self, formula: Formula) -> Shape:
        """The values that satisfy a formula."""
        known = self._shapes.get(formula)
        if known is None:
            known = self._shapes[formula] = self._shape(formula)
        return known

    def _shape(self, formula: Formula) -> Shape:
        match formula:
            case Not(body):
                return complement(self.shape(body))
            case All(parts):
                shape = ANYTHING
                for part in _ordered(parts):
                    shape = intersect(shape, self.shape(part))
                return shape
            case Some(parts):
                return unite(self.shape(part) for part in _ordered(parts))
            case At(pointer, scope):
                if pointer in self._constants:
                    return value_shape(self._constants[pointer], pointer, self._constants)
                return self._united(self._cases(self.document.at(pointer), scope, is_tracking=False))

    def _united(self, cases: list[Case]) -> Shape:
        return cases[0].shape if len(cases) == 1 else unite(case.shape for case in cases)

    def _cases(self, node: Node, scope: Scope, *, is_tracking: bool) -> list[Case]:
        """The ways to satisfy a subschema; one of them, without what was seen, unless `is_tracking`."""
        if isinstance(node.schema, bool):
            return [Case(ANYTHING if node.schema else NO_VALUE, NONE_SEEN)]
        if self.document.has_dynamic_references and node.resource not in scope:
            scope = (*scope, node.resource)
        if node.draft <= Draft.DRAFT_7 and "$ref" in node.schema:
            return self._referred(node, scope, "$ref", is_tracking=is_tracking)
        names = self._names(node, scope)
        shape = typed_shape(node.schema, node.pointer, scope, names)
        if _IN_PLACE.isdisjoint(node.schema):
            return [Case(shape, seen_by(node, scope) if is_tracking else NONE_SEEN)]
        place = (node.pointer, scope)
        if place in self._open:
            raise InvalidConstraint("a reference that leads back to itself says nothing", pointer=node.pointer)
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
        assert isinstance(node.schema, dict), "booleans have no keywords"
        has_unevaluated = "unevaluatedProperties" in node.schema or "unevaluatedItems" in node.schema
        is_inner_tracking = is_tracking or has_unevaluated
        cases = [Case(shape, seen_by(node, scope) if is_inner_tracking else NONE_SEEN)]
        for options in self._in_place(node, scope, is_tracking=is_inner_tracking):
            joined = (
                Case(intersect(one.shape, option.shape), one.seen | option.seen) for one in cases for option in options
            )
            cases = [case for case in joined if not case.shape.is_empty]
            if not is_inner_tracking:
                cases = [Case(self._united(cases) if cases else NO_VALUE, NONE_SEEN)]
        if has_unevaluated:
            cases = [self._evaluated(node, scope, case) for case in cases]
        if not is_tracking:
            return [Case(self._united(cases) if cases else NO_VALUE, NONE_SEEN)]
        return cases

    # Applicators on the same value: each gives the options of a further conjunct.

    def _in_place(self, node: Node, scope: Scope, *, is_tracking: bool) -> Iterator[list[Case]]:
        schema = node.schema
        assert isinstance(schema, dict), "booleans have no keywords"
        if "const" in schema:
            yield [Case(value_shape(schema["const"], f"={node.pointer}/const", self._constants), NONE_SEEN)]
        if isinstance(schema.get("enum"), list):
            values = schema["enum"]
            assert isinstance(values, list), "operands were checked"
            yield [Case(enumeration_shape(values, f"={node.pointer}/enum", self._constants), NONE_SEEN)]
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                yield self._referred(node, scope, keyword, is_tracking=is_tracking)
        for part in self._branches(node, "allOf"):
            yield self._cases(part, scope, is_tracking=is_tracking)
        if "anyOf" in schema:
            yield self._any_of(self._branches(node, "anyOf"), scope, is_tracking=is_tracking)
        if "oneOf" in schema:
            yield self._one_of(self._branches(node, "oneOf"), scope, is_tracking=is_tracking)
        if "not" in schema:
            yield [Case(complement(self._node_shape(self.document.child(node, "not"), scope)), NONE_SEEN)]
        if "if" in schema:
            yield self._conditional(node, scope, is_tracking=is_tracking)
        yield from self._dependent(node, scope, is_tracking=is_tracking)

    def _branches(self, node: Node, keyword: str) -> list[Node]:
        assert isinstance(node.schema, dict), "booleans have no keywords"
        operand = node.schema.get(keyword)
        length = len(operand) if isinstance(operand, list) else 0
        return [self.document.child(node, keyword, index) for index in range(length)]

    def _node_shape(self, node: Node, scope: Scope) -> Shape:
        return self.shape(child(node.schema, node.pointer, scope))

    def _referred(self, node: Node, scope: Scope, keyword: str, *, is_tracking: bool) -> list[Case]:
        place = (f"{node.pointer}/{keyword}", scope)
        if place in self._open:
            raise InvalidConstraint(f"{keyword} leads back to itself without a value between", pointer=node.pointer)
        self._open.add(place)
        try:
            target = self.target(node, scope, keyword)
            if not is_tracking:
                return [Case(self._node_shape(target, scope), NONE_SEEN)]
            return self._cases(target, scope, is_tracking=True)
        finally:
            self._open.discard(place)

    def target(self, node: Node, scope: Scope, keyword: str) -> Node:
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
            if node is not None and isinstance(node.schema, dict) and node.schema.get("$recursiveAnchor") is True:
                return node
        return target

    def _any_of(self, branches: list[Node], scope: Scope, *, is_tracking: bool) -> list[Case]:
        """At least one branch. What a branch has seen counts wherever it holds, so cases tell who holds."""
        if not is_tracking:
            return [Case(unite(self._node_shape(one, scope) for one in branches), NONE_SEEN)]
        found: list[tuple[Case, bool]] = [(Case(ANYTHING, NONE_SEEN), False)]
        for branch in branches:
            cases = self._cases(branch, scope, is_tracking=True)
            sees = any(case.seen != NONE_SEEN for case in cases)
            failing = complement(self._node_shape(branch, scope)) if sees else ANYTHING
            grown: list[tuple[Case, bool]] = []
            for one, holds in found:
                grown += [(_joined(one, case), True) for case in cases]
                grown.append((_joined(one, Case(failing, NONE_SEEN)), holds))
            found = [(case, holds) for case, holds in grown if not case.shape.is_empty]
        return [case for case, holds in found if holds]

    def _one_of(self, branches: list[Node], scope: Scope, *, is_tracking: bool) -> list[Case]:
        """Exactly one branch: each without the others, where they are not disjoint anyway."""
        shapes = [self._node_shape(one, scope) for one in branches]
        found: list[Case] = []
        for index, branch in enumerate(branches):
            cases = (
                self._cases(branch, scope, is_tracking=True) if is_tracking else [Case(shapes[index], NONE_SEEN)]
            )
            for other, shape in enumerate(shapes):
                if other != index:
                    cases = [replace(case, shape=self._without(case.shape, shape)) for case in cases]
            found += [case for case in cases if not case.shape.is_empty]
        return found if is_tracking else [Case(unite(case.shape for case in found), NONE_SEEN)]

    def _without(self, shape: Shape, other: Shape) -> Shape:
        if shape.is_empty or self.pruned(intersect(shape, other)).is_empty:
            return shape
        return self.pruned(intersect(shape, complement(other)))

    def _conditional(self, node: Node, scope: Scope, *, is_tracking: bool) -> list[Case]:
        schema = node.schema
        assert isinstance(schema, dict), "booleans have no keywords"
        condition = self.document.child(node, "if")
        fails = complement(self._node_shape(condition, scope))
        holding = self._cases(condition, scope, is_tracking=is_tracking)
        failing = [Case(fails, NONE_SEEN)]
        for keyword, cases in (("then", holding), ("else", failing)):
            if keyword in schema:
                branch = self._cases(self.document.child(node, keyword), scope, is_tracking=is_tracking)
                cases[:] = [_joined(one, other) for one in cases for other in branch]
        found = [
            replace(case, shape=self.pruned(case.shape)) for case in (*holding, *failing) if not case.shape.is_empty
        ]
        return found if is_tracking else [Case(unite(case.shape for case in found), NONE_SEEN)]

    def _dependent(self, node: Node, scope: Scope, *, is_tracking: bool) -> Iterator[list[Case]]:
        schema = node.schema
        assert isinstance(schema, dict), "booleans have no keywords"
        for keyword in ("dependentSchemas", "dependencies"):
            operand = schema.get(keyword)
            for name, one in operand.items() if isinstance(operand, dict) else ():
                if isinstance(one, list):
                    continue
                absent = ObjectShape(members={name: Member(value=NEVER)})
                present = ObjectShape(members={name: Member(value=ALWAYS)}, required=frozenset({name}))
                cases = self._cases(self.document.child(node, keyword, name), scope, is_tracking=is_tracking)
                holds = [
                    Case(intersect(Shape(objects=(present,)), case.shape), case.seen) for case in cases
                ]
                options = [Case(replace(ANYTHING, objects=(absent,)), NONE_SEEN), *holds]
                yield options if is_tracking else [Case(unite(case.shape for case in options), NONE_SEEN)]

    # What was not evaluated.

    def _evaluated(self, node: Node, scope: Scope, case: Case) -> Case:
        schema = node.schema
        assert isinstance(schema, dict), "booleans have no keywords"
        shape, seen = case.shape, case.seen
        if "unevaluatedProperties" in schema and not seen.all_properties:
            value = child(schema["unevaluatedProperties"], f"{node.pointer}/unevaluatedProperties", scope)
            rest = ObjectShape(
                members={name: Member(value=ALWAYS) for name in sorted(seen.names)},
                rules=(Rule(keys=outside(either(*seen.patterns)), value=value),),
            )
            shape = intersect(shape, replace(ANYTHING, objects=(rest,)))
            seen = replace(seen, all_properties=True)
        if "unevaluatedItems" in schema and not seen.all_items:
            value = child(schema["unevaluatedItems"], f"{node.pointer}/unevaluatedItems", scope)
            value = disjunction(value, *seen.contained)
            items = normalized(ArrayShape(prefix=(ALWAYS,) * seen.num_items, rest=value))
            shape = intersect(shape, replace(ANYTHING, arrays=(items,)))
            seen = replace(seen, all_items=True)
        return Case(shape, seen)

    # Emptiness.

    def pruned(self, shape: Shape) -> Shape:
        """The same values, without conjunctions that are evidently empty when members are looked at."""
        arrays = tuple(one for one in shape.arrays if not self._is_void_array(one, 0))
        objects = tuple(one for one in shape.objects if not self._is_void_object(one, 0))
        return replace(shape, arrays=arrays, objects=objects)

    def _is_void(self, formula: Formula, depth: int) -> bool:
        if formula in (ALWAYS, NEVER) or depth > _MAX_VOID_DEPTH:
            return formula == NEVER
        known = self._void.get(formula)
        if known is None:
            self._void[formula] = False  # while it is being looked at: recursion is not evidently empty
            known = self._void[formula] = self._is_void_shape(self.shape(formula), depth)
        return known

    def _is_void_shape(self, shape: Shape, depth: int) -> bool:
        if shape.is_empty:
            return True
        if replace(shape, arrays=(), objects=()).is_empty:
            arrays = all(self._is_void_array(one, depth) for one in shape.arrays)
            return arrays and all(self._is_void_object(one, depth) for one in shape.objects)
        return False

    def _is_void_array(self, shape: ArrayShape, depth: int) -> bool:
        if shape.is_empty:
            return True
        count = min(shape.minimum, len(shape.prefix) + 1)
        return any(self._is_void(shape.item(index), depth + 1) for index in range(count))

    def _is_void_object(self, shape: ObjectShape, depth: int) -> bool:
        return shape.is_empty or any(self._is_void(shape.members[name].value, depth + 1) for name in shape.required)


def _joined(one: Case, other: Case) -> Case:
    return Case(intersect(one.shape, other.shape), one.seen | other.seen)


def _ordered(parts: frozenset[Formula]) -> list[Formula]:
    """A fixed order, so that members come in the order of the document."""
    return sorted(parts, key=repr)
