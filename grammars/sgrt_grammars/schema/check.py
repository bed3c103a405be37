"""The check of a whole schema before it is used: every reachable keyword's operand, reference and pattern.

Combining subschemas can fail as well (an exclusive choice that multiplies out too far). Where that is possible,
the combination is worked out at once; everywhere else it waits until a generation gets there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sgrt_grammars.errors import CompileLimitExceeded, GrammarError, InvalidConstraint
from sgrt_grammars.schema.document import Document, Node, subschema_paths
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.formats import format_language
from sgrt_grammars.schema.in_place import InPlaceGraph
from sgrt_grammars.schema.keywords import KEYWORDS, Children, Treatment
from sgrt_grammars.schema.local import schema_pattern

MAX_SUBSCHEMAS = 200_000
MAX_NESTING = 200

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_CHILD_HOLDERS = frozenset(
    name
    for name, row in KEYWORDS.items()
    if row.children is not Children.NONE and row.children is not Children.DEFINITIONS
)

Schema = dict[str, object]


@dataclass(slots=True, eq=False)
class _Visit:
    """A subschema on the way; its pointer is written out only when it is needed."""

    schema: Schema
    parent: _Visit | None
    path: tuple[str | int, ...]
    depth: int
    node: Node | None = None

    def opened(self, document: Document) -> Node:
        """The node of the subschema."""
        if self.node is None:
            assert self.parent is not None, "the root has its node"
            self.node = document.child(self.parent.opened(document), *self.path)
        return self.node


@dataclass(slots=True)
class Checker:
    """Looks at every subschema that a document can reach.

    With `is_collecting`, faults are collected in `faults` instead of raised.
    """

    document: Document
    is_collecting: bool = False
    found: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    faults: list[GrammarError] = field(default_factory=list)
    graph: InPlaceGraph = field(default_factory=InPlaceGraph)
    _seen: set[int] = field(default_factory=set)

    def check(self) -> None:
        """Raises the error of the first fault; collects the keywords in `found`."""
        root = self.document.root
        if isinstance(root.schema, bool):
            return
        stack = [_Visit(root.schema, None, (), 0, root)]
        while stack:
            visit = stack.pop()
            if id(visit.schema) in self._seen:
                continue
            self._seen.add(id(visit.schema))
            if len(self._seen) > MAX_SUBSCHEMAS:
                raise CompileLimitExceeded(f"more than {MAX_SUBSCHEMAS} subschemas", limit="subschemas")
            if visit.depth > MAX_NESTING:
                raise CompileLimitExceeded(f"subschemas nest deeper than {MAX_NESTING}", limit="depth")
            try:
                stack += self._look_at(visit)
            except GrammarError as error:
                if not self.is_collecting:
                    raise
                self.faults.append(error)
        self.graph.refuse_cycles()

    def _look_at(self, visit: _Visit) -> list[_Visit]:
        """Check one subschema's own keywords; -> the subschemas it leads to."""
        schema = visit.schema
        if "$ref" in schema and self._draft(visit) <= Draft.DRAFT_7:
            schema = {"$ref": schema["$ref"]}
        self._check_operands(visit, schema)
        self._check_texts(visit, schema)
        following = self._below(visit, schema)
        if not self.graph.names.isdisjoint(schema):
            targets = list(self._targets(visit, schema))
            pointer = visit.opened(self.document).pointer
            self.graph.add(visit.schema, pointer, schema, targets)
            following += [
                _Visit(one.schema, None, (), 0, one) for one in targets if isinstance(one.schema, dict)
            ]
        return following

    def _draft(self, visit: _Visit) -> Draft:
        return visit.opened(self.document).draft

    def _check_operands(self, visit: _Visit, schema: Schema) -> None:
        for name, operand in schema.items():
            row = KEYWORDS.get(name)
            if row is None:
                self.unknown.add(name)
                continue
            fault = row.check(operand)
            if fault:
                pointer = visit.opened(self.document).pointer
                raise InvalidConstraint(f"{name} {fault}", pointer=f"{pointer}/{name}")
            if row.treatment is not Treatment.ANNOTATION:
                self.found.add(name)

    def _check_texts(self, visit: _Visit, schema: Schema) -> None:
        """Patterns must parse and formats must be enforceable, wherever they stand."""
        pattern, name, keys = schema.get("pattern"), schema.get("format"), schema.get("patternProperties")
        if isinstance(pattern, str):
            schema_pattern(pattern, f"{visit.opened(self.document).pointer}/pattern", "pattern")
        if isinstance(name, str):
            format_language(name, visit.opened(self.document).pointer)
        for text in keys if isinstance(keys, dict) else ():
            pointer = visit.opened(self.document).pointer
            schema_pattern(text, f"{pointer}/patternProperties", "patternProperties")

    def _targets(self, visit: _Visit, schema: Schema) -> Iterable[Node]:
        """What the references of a subschema may lead to."""
        for keyword in _REFERENCES:
            if keyword in schema:
                yield self.document.resolve(visit.opened(self.document), str(schema[keyword]), keyword)
        if "$dynamicRef" in schema or "$recursiveRef" in schema:
            yield from self.document.index.dynamic_anchors.values()

    def _below(self, visit: _Visit, schema: Schema) -> list[_Visit]:
        if _CHILD_HOLDERS.isdisjoint(schema):
            return []
        found: list[_Visit] = []
        for path in subschema_paths(schema):
            if path[0] in _CHILD_HOLDERS:
                value: object = schema
                for step in path:
                    value = value[step]  # type: ignore[index]  # the path was read off the schema
                if isinstance(value, dict) and value:
                    found.append(_Visit(value, visit, path, visit.depth + 1))
        return found
