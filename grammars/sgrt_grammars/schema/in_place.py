"""Which subschemas apply to the same value: cycles among them, and where combining them may go too far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sgrt_grammars.components import strong_components
from sgrt_grammars.errors import CompileLimitExceeded, InvalidConstraint
from sgrt_grammars.schema.document import Node
from sgrt_grammars.schema.keywords import is_number
from sgrt_grammars.schema.shape import MAX_ALTERNATIVES

Schema = dict[str, object]

MAX_DEPTH = 80
"""How many subschemas may apply one another to the same value, one inside the other."""

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "if", "then", "else")
_MAPS = ("dependentSchemas", "dependencies")
_RISKY = frozenset(
    {"not", "if", "contains", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "multipleOf"}
    | {"patternProperties", "propertyNames", "dependencies"}
)
_ALL_TYPES = frozenset({"null", "boolean", "number", "string", "array", "object"})


@dataclass(slots=True)
class _Vertex:
    """A subschema with keywords that apply others to its value, or that may be combined badly."""

    pointer: str
    schema: Schema
    targets: list[Schema] = field(default_factory=list)
    alternatives: int = 1
    depth: int = 1


@dataclass(slots=True)
class InPlaceGraph:
    """Edges from subschemas to those they apply to the same value. Subschemas are told apart by identity."""

    names: frozenset[str] = frozenset({"$ref", "$dynamicRef", "$recursiveRef", *_LISTS, *_SINGLE, *_RISKY})
    _vertices: dict[int, _Vertex] = field(default_factory=dict)

    def add(self, key: Schema, pointer: str, schema: Schema, references: Iterable[Node]) -> None:
        """A subschema with some of `names`; `key` is the operand itself, `schema` what counts of it."""
        vertex = _Vertex(pointer, schema, [one.schema for one in references if isinstance(one.schema, dict)])
        self._vertices[id(key)] = vertex

    def refuse_cycles(self) -> None:
        """Raises for subschemas that apply each other to the same value for ever."""
        for component in strong_components(self._vertices, self._successors):
            vertex = self._vertices.get(component[0])
            if vertex is None:
                continue
            if len(component) > 1 or component[0] in self._successors(component[0]):
                raise InvalidConstraint(
                    "a reference leads back to itself without a value between", pointer=vertex.pointer
                )
            vertex.alternatives = self._count(vertex)
            below = (
                self._vertices[key].depth for key in self._successors(component[0]) if key in self._vertices
            )
            vertex.depth = 1 + max(below, default=0)
            if vertex.depth > MAX_DEPTH:
                raise CompileLimitExceeded(
                    f"more than {MAX_DEPTH} subschemas refer to each other about one value, at {vertex.pointer or '/'}",
                    limit="depth",
                )

    def _successors(self, key: int) -> list[int]:
        vertex = self._vertices.get(key)
        if vertex is None:
            return []
        return [id(one) for one in (*vertex.targets, *_applied(vertex.schema)) if isinstance(one, dict)]

    def _count(self, vertex: _Vertex) -> int:
        """At most so many conjunctions about arrays or objects the subschema has, when nothing is negated."""
        count = 1
        for one in vertex.targets:
            count *= self._alternatives(one)
        for keyword in _LISTS:
            operand = vertex.schema.get(keyword)
            branches = [self._alternatives(one) for one in operand] if isinstance(operand, list) else []
            if keyword == "allOf":
                for branch in branches:
                    count *= branch
            elif branches:
                count *= sum(branches)
        return min(count, MAX_ALTERNATIVES + 1)

    def _alternatives(self, schema: object) -> int:
        vertex = self._vertices.get(id(schema))
        if vertex is not None:
            return vertex.alternatives
        values = schema.get("enum") if isinstance(schema, dict) else None
        return max(
            1, sum(isinstance(value, dict | list) for value in values) if isinstance(values, list) else 1
        )

    @property
    def risky(self) -> list[str]:
        """Pointers of subschemas whose combination may fail, so that it should be tried at once."""
        return [vertex.pointer for vertex in self._vertices.values() if self._is_risky(vertex)]

    def _is_risky(self, vertex: _Vertex) -> bool:
        if vertex.alternatives > MAX_ALTERNATIVES or not _RISKY.isdisjoint(vertex.schema):
            return True
        branches = vertex.schema.get("oneOf")
        return isinstance(branches, list) and not self._are_disjoint(branches)

    def _are_disjoint(self, branches: list[object]) -> bool:
        """Whether no two branches share a type."""
        seen: set[str] = set()
        for branch in branches:
            types = self._types(branch, 0)
            if seen & types:
                return False
            seen |= types
        return True

    def _types(self, schema: object, depth: int) -> frozenset[str]:
        if not isinstance(schema, dict) or depth > 4:
            return _ALL_TYPES
        named = schema.get("type")
        if named is not None:
            names = named if isinstance(named, list) else [named]
            return frozenset("number" if name == "integer" else str(name) for name in names)
        if "const" in schema:
            return frozenset({_type_of(schema["const"])})
        values = schema.get("enum")
        if isinstance(values, list):
            return frozenset(map(_type_of, values))
        vertex = self._vertices.get(id(schema))
        if vertex is not None and len(vertex.targets) == 1:
            return self._types(vertex.targets[0], depth + 1)
        return _ALL_TYPES


def _applied(schema: Schema) -> Iterable[object]:
    for keyword in _LISTS:
        operand = schema.get(keyword)
        if isinstance(operand, list):
            yield from operand
    for keyword in _SINGLE:
        if keyword in schema:
            yield schema[keyword]
    for keyword in _MAPS:
        operand = schema.get(keyword)
        if isinstance(operand, dict):
            yield from operand.values()


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"
