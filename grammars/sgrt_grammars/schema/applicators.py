"""Keywords that apply subschemas to the same value: each narrows the cases it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from sgrt_grammars.regex.language import either, outside
from sgrt_grammars.schema.arrays import ArrayShape, normalized
from sgrt_grammars.schema.case import Case, united
from sgrt_grammars.schema.document import Document, Node
from sgrt_grammars.schema.emptiness import Emptiness
from sgrt_grammars.schema.formula import ALWAYS, NEVER, disjunction
from sgrt_grammars.schema.local import child, enumeration_shape, value_shape
from sgrt_grammars.schema.objects import Member, ObjectShape, Rule
from sgrt_grammars.schema.seen import NONE_SEEN
from sgrt_grammars.schema.shape import ANYTHING, Shape, unite

Scope = tuple[str, ...]

_MANY = 8


class Subschemas(Protocol):
    """What applicators need to know about the subschemas they apply."""

    @property
    def document(self) -> Document:
        """The document."""
        ...

    @property
    def constants(self) -> dict[str, object]:
        """Where values inside `const` and `enum` are kept."""
        ...

    @property
    def emptiness(self) -> Emptiness:
        """Differences of shapes."""
        ...

    def node_shape(self, node: Node, scope: Scope) -> Shape:
        """The shape of a subschema."""
        ...

    def cases(self, node: Node, scope: Scope, *, is_tracking: bool) -> list[Case]:
        """The ways to satisfy a subschema."""
        ...

    def referred(self, node: Node, scope: Scope, keyword: str, *, is_tracking: bool) -> list[Case]:
        """The ways to satisfy what a reference leads to."""
        ...


Applicator = Callable[[Subschemas, Node, Scope, list[Case], bool], list[Case]]


def _product(cases: list[Case], options: list[Case], is_tracking: bool) -> list[Case]:
    """Every case with every option; options without different annotations are one."""
    if not is_tracking:
        options = [Case(united(options), NONE_SEEN)]
    joined = (one.joined(option) for one in cases for option in options)
    return [case for case in joined if not case.shape.is_empty]


def _operand(node: Node, keyword: str) -> object:
    assert isinstance(node.schema, dict), "booleans have no keywords"
    return node.schema[keyword]


def _branches(subschemas: Subschemas, node: Node, keyword: str) -> list[Node]:
    operand = _operand(node, keyword)
    assert isinstance(operand, list), "operands were checked"
    return [subschemas.document.child(node, keyword, index) for index in range(len(operand))]


def _const(
    subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
) -> list[Case]:
    shape = value_shape(_operand(node, "const"), f"={node.pointer}/const", subschemas.constants)
    return _product(cases, [Case(shape, NONE_SEEN)], is_tracking)


def _enum(
    subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
) -> list[Case]:
    values = _operand(node, "enum")
    assert isinstance(values, list), "operands were checked"
    shape = enumeration_shape(values, f"={node.pointer}/enum", subschemas.constants)
    return _product(cases, [Case(shape, NONE_SEEN)], is_tracking)


def _reference(keyword: str) -> Applicator:
    def apply(
        subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
    ) -> list[Case]:
        return _product(
            cases, subschemas.referred(node, scope, keyword, is_tracking=is_tracking), is_tracking
        )

    return apply


def _all_of(
    subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
) -> list[Case]:
    for branch in _branches(subschemas, node, "allOf"):
        cases = _product(cases, subschemas.cases(branch, scope, is_tracking=is_tracking), is_tracking)
        cases = [_thinned(subschemas, case) for case in cases]
    return cases


def _thinned(subschemas: Subschemas, case: Case) -> Case:
    """The case without what is evidently empty, where it holds so many conjunctions that more would multiply."""
    if max(len(case.shape.objects), len(case.shape.arrays)) < _MANY:
        return case
    return replace(case, shape=subschemas.emptiness.pruned(case.shape))


def _any_of(
    subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
) -> list[Case]:
    """At least one branch. What a branch has seen counts wherever it holds, so cases tell who holds."""
    branches = _branches(subschemas, node, "anyOf")
    if not is_tracking:
        options = [Case(unite(subschemas.node_shape(one, scope) for one in branches), NONE_SEEN)]
        return _product(cases, options, is_tracking)
    found = [(case, False) for case in cases]
    for branch in branches:
        ways = subschemas.cases(branch, scope, is_tracking=True)
        sees = any(way.seen != NONE_SEEN for way in ways)
        shape = subschemas.node_shape(branch, scope)
        grown = [(one.joined(way), True) for one, _ in found for way in ways]
        for one, holds in found:
            rest = subschemas.emptiness.difference(one.shape, shape) if sees else one.shape
            grown.append((replace(one, shape=rest), holds))
        found = [
            (case, holds) for case, holds in grown if not subschemas.emptiness.pruned(case.shape).is_empty
        ]
    return [case for case, holds in found if holds]


def _one_of(
    subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
) -> list[Case]:
    """Exactly one branch: each without the others."""
    branches = _branches(subschemas, node, "oneOf")
    shapes = [subschemas.node_shape(one, scope) for one in branches]
    found: list[Case] = []
    for index, branch in enumerate(branches):
        ways = (
            subschemas.cases(branch, scope, is_tracking=True)
            if is_tracking
            else [Case(shapes[index], NONE_SEEN)]
        )
        for case in _product(cases, ways, is_tracking):
            shape = subschemas.emptiness.pruned(case.shape)
            for other, taken in enumerate(shapes):
                if other != index:
                    shape = subschemas.emptiness.difference(shape, taken)
            if not shape.is_empty:
                found.append(replace(case, shape=shape))
    return found if is_tracking else [Case(united(found), NONE_SEEN)]


def _not(
    subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
) -> list[Case]:
    taken = subschemas.node_shape(subschemas.document.child(node, "not"), scope)
    return [replace(case, shape=subschemas.emptiness.difference(case.shape, taken)) for case in cases]


def _if(subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool) -> list[Case]:
    schema = node.schema
    assert isinstance(schema, dict), "booleans have no keywords"
    if not is_tracking and "then" not in schema and "else" not in schema:
        return cases
    condition = subschemas.document.child(node, "if")
    shape = subschemas.node_shape(condition, scope)
    holding = _product(cases, subschemas.cases(condition, scope, is_tracking=is_tracking), is_tracking)
    failing = [replace(case, shape=subschemas.emptiness.difference(case.shape, shape)) for case in cases]
    for keyword, group in (("then", holding), ("else", failing)):
        if keyword in schema:
            branch = subschemas.document.child(node, keyword)
            group[:] = _product(group, subschemas.cases(branch, scope, is_tracking=is_tracking), is_tracking)
    found = [replace(case, shape=subschemas.emptiness.pruned(case.shape)) for case in (*holding, *failing)]
    found = [case for case in found if not case.shape.is_empty]
    return found if is_tracking else [Case(united(found), NONE_SEEN)]


def _dependent(keyword: str) -> Applicator:
    def apply(
        subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
    ) -> list[Case]:
        operand = _operand(node, keyword)
        assert isinstance(operand, dict), "operands were checked"
        for name, one in operand.items():
            if isinstance(one, list):
                continue
            absent = ObjectShape(members={name: Member(value=NEVER)})
            present = ObjectShape(members={name: Member(value=ALWAYS)}, required=frozenset({name}))
            holding = Case(Shape(objects=(present,)), NONE_SEEN)
            ways = subschemas.cases(
                subschemas.document.child(node, keyword, name), scope, is_tracking=is_tracking
            )
            options = [
                Case(replace(ANYTHING, objects=(absent,)), NONE_SEEN),
                *(holding.joined(way) for way in ways),
            ]
            cases = _product(cases, options, is_tracking)
        return cases

    return apply


def _later(
    subschemas: Subschemas, node: Node, scope: Scope, cases: list[Case], is_tracking: bool
) -> list[Case]:
    """`unevaluated*` looks at the cases when all others are done."""
    return cases


APPLICATORS: dict[str, Applicator] = {
    "const": _const,
    "enum": _enum,
    "$ref": _reference("$ref"),
    "$dynamicRef": _reference("$dynamicRef"),
    "$recursiveRef": _reference("$recursiveRef"),
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "dependentSchemas": _dependent("dependentSchemas"),
    "dependencies": _dependent("dependencies"),
    "unevaluatedItems": _later,
    "unevaluatedProperties": _later,
}


def evaluate_rest(node: Node, scope: Scope, case: Case) -> Case:
    """The case in which what was not evaluated satisfies `unevaluatedProperties` and `unevaluatedItems`."""
    schema = node.schema
    assert isinstance(schema, dict), "booleans have no keywords"
    found = case
    seen = case.seen
    if "unevaluatedProperties" in schema and not seen.all_properties:
        value = child(schema["unevaluatedProperties"], f"{node.pointer}/unevaluatedProperties", scope)
        rest = ObjectShape(
            members={name: Member(value=ALWAYS) for name in sorted(seen.names)},
            rules=(Rule(keys=outside(either(*seen.patterns)), value=value),),
        )
        found = found.joined(
            Case(replace(ANYTHING, objects=(rest,)), replace(NONE_SEEN, all_properties=True))
        )
    if "unevaluatedItems" in schema and not seen.all_items:
        value = child(schema["unevaluatedItems"], f"{node.pointer}/unevaluatedItems", scope)
        value = disjunction(value, *seen.contained)
        items = normalized(ArrayShape(prefix=(ALWAYS,) * seen.num_items, rest=value))
        found = found.joined(Case(replace(ANYTHING, arrays=(items,)), replace(NONE_SEEN, all_items=True)))
    return found
