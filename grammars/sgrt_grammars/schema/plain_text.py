"""Values of plain subschemas, written straight from their keywords.

Most subschemas are a type with a bound, a choice of strings, a reference, a list, or an object with named properties. What
they say needs no algebra of shapes. Scalars are named by their content, so that all documents share them; the commonest
are written where they stand. Whatever else there is, is left to the general way, which writes the same language.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import TypeGuard

from sgrt_grammars.constraint import PropertyOrder
from sgrt_grammars.expression import (
    NOTHING,
    Canonical,
    Complement,
    Concatenation,
    Deferred,
    Distinct,
    Expression,
    Intersection,
    Literal,
    Members,
    Repetition,
    Scope,
    Texts,
)
from sgrt_grammars.regex.language import ANY_TEXT, words
from sgrt_grammars.regex.language import NOTHING as NO_TEXT
from sgrt_grammars.regex.spelling import alternation
from sgrt_grammars.schema.array_text import ArrayText, Values
from sgrt_grammars.schema.arrays import ArrayShape
from sgrt_grammars.schema.document import Document, Node
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.formula import ALWAYS, NEVER, At, Formula
from sgrt_grammars.schema.json_text import ANY_KEY_TEXT, colon, comma, quoted, space, string
from sgrt_grammars.schema.keywords import as_count
from sgrt_grammars.schema.local import Operands, child, escaped, typed_shape
from sgrt_grammars.schema.number_text import number
from sgrt_grammars.schema.plain import OPERATIVE, is_plainly_satisfiable

MAX_HOPS = 16
"""References that are followed one after the other."""

_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_SCALAR_KEYWORDS = frozenset(
    {
        *("type", "minLength", "maxLength", "pattern", "format"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    }
)
_OBJECT_KEYWORDS = frozenset({"type", "properties", "required", "additionalProperties"})
_ARRAY_KEYWORDS = frozenset({"type", "items", "minItems", "maxItems"})
_QUOTE = Literal(b'"')

Content = tuple[tuple[str, str, Hashable], ...]
"""Keywords with the types of their operands and the operands: what a scalar's language depends on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainText:
    """Writes the plain values of one document. `values` writes all others; both know values by formulas."""

    document: Document
    values: Values
    order: PropertyOrder
    is_canonical: bool
    is_whole: bool
    _targets: dict[str, Formula] = field(default_factory=dict)

    def target(self, formula: At) -> Formula:
        """What a formula that only refers to another leads to in the end; itself if it says something."""
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

    def scalar(self, formula: At) -> Expression | None:
        """The values of a formula without structure; None if there is any, or more than meets the eye."""
        schema = self.document.at(formula.pointer).schema
        if isinstance(schema, bool):
            return None
        keywords = schema.keys() & OPERATIVE
        if keywords == {"type"}:
            kind = schema["type"]
            content: Content = (("type", "", tuple(kind) if isinstance(kind, list) else (kind,)),)
            if _SCALARS.issuperset(content[0][2]):  # type: ignore[arg-type]  # a tuple, see above
                return _scalar(content, self.is_canonical, self.is_whole)
        elif keywords <= _SCALAR_KEYWORDS and _SCALARS.issuperset(_types(schema)):
            bounds = _content(schema, keywords)
            build = partial(_scalar, bounds, self.is_canonical, self.is_whole)
            key = ("scalar", bounds, self.is_canonical, self.is_whole)
            return Deferred(key, build, is_plainly_satisfiable(self.document, formula.pointer))
        elif keywords == {"enum"} or (keywords == {"enum", "type"} and "string" in _types(schema)):
            return _choice(schema["enum"])
        return None

    def structure(self, formula: At, key: Hashable) -> Expression | None:
        """The objects or arrays of a formula; None if it is not as plain as that."""
        node = self.document.at(formula.pointer)
        if isinstance(node.schema, bool) or "$ref" in node.schema:
            return None
        keywords = node.schema.keys() & OPERATIVE
        kind = node.schema.get("type")
        if kind == "object" and keywords <= _OBJECT_KEYWORDS and self.order is PropertyOrder.SCHEMA:
            return self._object(node, key)
        if kind == "array" and keywords <= _ARRAY_KEYWORDS:
            return self._array(node, key)
        return None

    def _array(self, node: Node, key: Hashable) -> Expression | None:
        assert isinstance(node.schema, dict), "asked before"
        items, most = node.schema.get("items", True), node.schema.get("maxItems")
        least, maximum = as_count(node.schema.get("minItems", 0)) or 0, as_count(most)
        rest = ALWAYS if isinstance(items, list) else child(items, f"{node.pointer}/items", ())
        if isinstance(items, list) or rest == NEVER or (maximum is not None and maximum < least):
            return None
        shape = ArrayShape(rest=rest, minimum=least, maximum=maximum)
        return ArrayText(shape=shape, key=(key, 0), values=self.values).expression()

    def _object(self, node: Node, key: Hashable) -> Expression | None:
        assert isinstance(node.schema, dict), "asked before"
        properties, required = node.schema.get("properties", {}), node.schema.get("required", ())
        assert isinstance(properties, dict), "operands were checked"
        assert isinstance(required, list | tuple), "operands were checked"
        if not properties.keys() >= set(required) or False in properties.values():
            return None
        base, value = f"{node.pointer}/properties/", self.values.value
        values = tuple(value(child(one, base + escaped(name), ())) for name, one in properties.items())
        flags = tuple(map(set(required).__contains__, properties))
        names = tuple(map(quoted, properties))
        whitespace = self.values.whitespace
        rest = child(
            node.schema.get("additionalProperties", True), f"{node.pointer}/additionalProperties", ()
        )
        inside = Members(
            key=(key, 0),
            names=names,
            values=values,
            required=flags,
            between=colon(whitespace),
            separator=comma(whitespace),
            end=space(whitespace),
            free=self._free(names, rest, key),
            sound_from=_sound_from(values, flags, properties),
        )
        return Concatenation((Literal(b"{"), space(whitespace), inside, Literal(b"}")))

    def _free(self, names: tuple[bytes, ...], rest: Formula, key: Hashable) -> Expression:
        """Free members and the end of the object."""
        if rest == NEVER:
            return NOTHING
        value = self.values.value(rest)
        if rest == ALWAYS and isinstance(value, Deferred):
            key = value.key
        return Deferred((key, "free", names), partial(self._build_free, names, value))

    def _build_free(self, names: tuple[bytes, ...], value: Expression) -> Expression:
        """Members of other names, none of them twice."""
        whitespace = self.values.whitespace
        name: Expression = ANY_KEY_TEXT
        if names:
            name = Intersection((name, Complement(Texts(tuple(one[1:-1] for one in names)))))
        distinct = Distinct(Concatenation((_QUOTE, name, _QUOTE)), Canonical.BYTES)
        entry = Concatenation((distinct, colon(whitespace), value))
        more = Repetition(Concatenation((comma(whitespace), entry)), 0, None)
        return Concatenation((Scope(Concatenation((entry, more))), space(whitespace)))


def is_subschema(formula: Formula) -> TypeGuard[At]:
    """Whether the formula is a subschema of the document; constants have places of their own."""
    return isinstance(formula, At) and not formula.pointer.startswith("=")


def _reference(node: Node) -> str | None:
    """The reference of a subschema that says nothing else."""
    if isinstance(node.schema, bool) or "$ref" not in node.schema:
        return None
    if node.draft > Draft.DRAFT_7 and node.schema.keys() & OPERATIVE != {"$ref"}:
        return None
    return str(node.schema["$ref"])


def _types(schema: Operands) -> tuple[str, ...]:
    """The types that a subschema names; one that is no scalar if it names none."""
    kind = schema.get("type", "any")
    return tuple(map(str, kind)) if isinstance(kind, list) else (str(kind),)


def _content(schema: Operands, keywords: set[str]) -> Content:
    """Equal for equal operands, and for those alone: `true` is not `1`."""
    return tuple(
        (name, type(one).__name__, tuple(one) if isinstance(one, list) else one)
        for name, one in schema.items()
        if name in keywords
    )


@lru_cache(maxsize=4096)
def _scalar(content: Content, is_canonical: bool, is_whole: bool) -> Expression:
    schema: Operands = {
        name: list(one) if isinstance(one, tuple) and name == "type" else one for name, _, one in content
    }
    shape = typed_shape(schema, "", (), ANY_TEXT)
    options: list[Expression] = [Literal(b"null")] if shape.null else []
    options += [Literal(b"true" if value else b"false") for value in sorted(shape.booleans)]
    if shape.numbers:
        options.append(number(shape.numbers, is_canonical=is_canonical, is_whole=is_whole))
    if shape.strings != NO_TEXT:
        options.append(string(shape.strings))
    return alternation(options)


def _choice(operand: object) -> Expression | None:
    """One of some strings; None if some are no strings, or special."""
    if not isinstance(operand, list) or not operand:
        return None
    if not all(isinstance(one, str) and one.isascii() for one in operand):
        return None
    texts = tuple(operand)
    return Deferred(("choice", texts), partial(_one_of, texts), is_satisfiable=True)


def _one_of(texts: tuple[str, ...]) -> Expression:
    return string(words(texts))


def _sound_from(values: tuple[Expression, ...], flags: tuple[bool, ...], names: dict[str, object]) -> int:
    """The first place from which on all required members evidently have values over printable ASCII."""
    for index, name in reversed(list(enumerate(names))):
        value = values[index]
        is_evident = not isinstance(value, Deferred) or value.is_satisfiable
        if flags[index] and not (is_evident and name.isascii() and name.isprintable()):
            return index + 1
    return 0
