"""The check of a whole schema before it is used: every reachable keyword's operand, reference and pattern.

What can only be found by combining subschemas (an exclusive choice that multiplies out too far, a reference
that leads back to itself) is found by combining them all, for documents that use such keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint
from sgrt_grammars.schema.arrays import ArrayShape
from sgrt_grammars.schema.document import Document, Node, subschema_paths
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.evaluate import Evaluator
from sgrt_grammars.schema.formats import format_language
from sgrt_grammars.schema.formula import All, At, Formula, Not, Some, conjunction, negation
from sgrt_grammars.schema.keywords import KEYWORDS, Children, Treatment
from sgrt_grammars.schema.local import schema_pattern
from sgrt_grammars.schema.objects import ObjectShape
from sgrt_grammars.schema.shape import Shape

MAX_SUBSCHEMAS = 200_000
MAX_NESTING = 200

_COMBINING = frozenset(
    {
        "$ref",
        "$dynamicRef",
        "$recursiveRef",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "contains",
        "uniqueItems",
    }
    | {"dependentSchemas", "dependencies", "unevaluatedItems", "unevaluatedProperties", "patternProperties"}
    | {"propertyNames", "multipleOf", "const", "enum"}
)
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(slots=True)
class Checker:
    """Looks at every subschema that a document can reach."""

    document: Document
    found: set[str] = field(default_factory=set)
    _seen: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Raises the error of the first fault; collects the keywords in `found`."""
        stack = [(self.document.root, 0)]
        while stack:
            node, depth = stack.pop()
            if node.pointer in self._seen or isinstance(node.schema, bool):
                continue
            self._seen.add(node.pointer)
            if len(self._seen) > MAX_SUBSCHEMAS:
                raise CompileLimitExceeded(f"more than {MAX_SUBSCHEMAS} subschemas", limit="subschemas")
            if depth > MAX_NESTING:
                raise CompileLimitExceeded(f"subschemas nest deeper than {MAX_NESTING}", limit="depth")
            stack += [(child, depth + 1) for child in self._look_at(node, node.schema)]

    def _look_at(self, node: Node, schema: dict[str, object]) -> list[Node]:
        """Check one subschema's own keywords; -> the subschemas it leads to."""
        if node.draft <= Draft.DRAFT_7 and "$ref" in schema:
            schema = {"$ref": schema["$ref"]}
        for name, operand in schema.items():
            row = KEYWORDS.get(name)
            if row is None:
                continue
            fault = row.check(operand)
            if fault:
                raise InvalidConstraint(f"{name} {fault}", pointer=f"{node.pointer}/{name}")
            if row.treatment is not Treatment.ANNOTATION:
                self.found.add(name)
        self._check_texts(node, schema)
        return [*self._referred(node, schema), *self._below(node, schema)]

    def _check_texts(self, node: Node, schema: dict[str, object]) -> None:
        """Patterns must parse and formats must be enforceable, wherever they stand."""
        pattern, name, keys = schema.get("pattern"), schema.get("format"), schema.get("patternProperties")
        if isinstance(pattern, str):
            schema_pattern(pattern, f"{node.pointer}/pattern", "pattern")
        if isinstance(name, str):
            format_language(name, node.pointer)
        for text in keys if isinstance(keys, dict) else ():
            schema_pattern(text, f"{node.pointer}/patternProperties", "patternProperties")

    def _referred(self, node: Node, schema: dict[str, object]) -> Iterable[Node]:
        for keyword in _REFERENCES:
            if keyword in schema:
                yield self.document.resolve(node, str(schema[keyword]), keyword)
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            yield from self.document.index.dynamic_anchors.values()

    def _below(self, node: Node, schema: dict[str, object]) -> Iterable[Node]:
        for path in subschema_paths(schema):
            if KEYWORDS[str(path[0])].children is not Children.DEFINITIONS:
                yield self.document.child(node, *path)


def combine_all(evaluator: Evaluator, root: Formula, visit: Callable[[Shape, str], None]) -> None:
    """Work out the shape of every formula that is reachable from `root`; `visit` gets each and a pointer to it."""
    stack, seen = [root], {root}
    while stack:
        current = stack.pop()
        shape = evaluator.shape(current)
        visit(shape, pointer_of(current))
        for formula in _children(shape):
            if formula not in seen:
                seen.add(formula)
                stack.append(formula)
        if len(seen) > MAX_SUBSCHEMAS:
            raise CompileLimitExceeded(
                f"more than {MAX_SUBSCHEMAS} combinations of subschemas", limit="subschemas"
            )


def pointer_of(formula: Formula) -> str:
    """The pointer of a subschema that the formula speaks about."""
    match formula:
        case At(pointer, _):
            return pointer.removeprefix("=")
        case Not(body):
            return pointer_of(body)
        case All(parts) | Some(parts):
            return min((pointer_of(part) for part in parts), default="")


def _children(shape: Shape) -> Iterable[Formula]:
    for array in shape.arrays:
        yield from _array_children(array)
    for one in shape.objects:
        yield from _object_children(one)


def _array_children(shape: ArrayShape) -> Iterable[Formula]:
    yield from shape.prefix
    yield shape.rest
    for one in shape.contains:
        for item in (*shape.prefix[one.start :], shape.rest):
            yield conjunction(item, one.item)
            yield conjunction(item, negation(one.item))


def _object_children(shape: ObjectShape) -> Iterable[Formula]:
    yield from (member.value for member in shape.members.values())
    yield from (rule.value for rule in shape.rules)
    for one in shape.counts:
        for value in (
            *(member.value for member in shape.members.values()),
            *(rule.value for rule in shape.rules),
        ):
            yield conjunction(value, one.value)
            yield conjunction(value, negation(one.value))
        yield one.value
        yield negation(one.value)


def is_combining(keywords: Iterable[str]) -> bool:
    """Whether the keywords can fail in combination only."""
    return not _COMBINING.isdisjoint(keywords)
