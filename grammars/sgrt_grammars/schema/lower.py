"""From JSON Schemas to expressions."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cache, partial

from sgrt_grammars.constraint import JsonObject, JsonSchema, NumberSpelling, PropertyOrder, Whitespace
from sgrt_grammars.errors import CompileLimitExceeded, UnsatisfiableConstraint, UnsupportedConstraint
from sgrt_grammars.expression import (
    Concatenation,
    Deferred,
    Expression,
    Literal,
    SchemaSpelling,
    SchemaText,
    SchemaValue,
)
from sgrt_grammars.regex.language import NOTHING as NO_TEXT
from sgrt_grammars.regex.spelling import alternation
from sgrt_grammars.schema.any_order_text import AnyOrderText
from sgrt_grammars.schema.array_text import ArrayText, is_repetition_known
from sgrt_grammars.schema.check import Checker
from sgrt_grammars.schema.combine import combine, pointer_of
from sgrt_grammars.schema.document import Document
from sgrt_grammars.schema.draft import Draft
from sgrt_grammars.schema.evaluate import Evaluator
from sgrt_grammars.schema.formula import ALWAYS, NEVER, At, Formula
from sgrt_grammars.schema.free_keys import MAX_RULES, key_spaces
from sgrt_grammars.schema.json_text import (
    ANY_CHARACTER,
    ANY_KEY_TEXT,
    ANY_STRING,
    colon,
    comma,
    space,
    string,
)
from sgrt_grammars.schema.number_text import number
from sgrt_grammars.schema.numbers import ALL_NUMBERS, INTEGERS
from sgrt_grammars.schema.object_text import ObjectText
from sgrt_grammars.schema.plain import OPERATIVE, is_plainly_satisfiable
from sgrt_grammars.schema.references import References
from sgrt_grammars.schema.shape import Shape

_ANY_DOCUMENT = b""
MAX_ANY_ORDER = 128
"""How many alternatives of objects one value may have where keys come in any order."""

_FREE_OBJECT = '{"type":"object"}'
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def schema_expression(constraint: JsonSchema) -> Expression:
    """JSON text that is valid against the schema."""
    document = Document(constraint.text)
    checker = Checker(document)
    checker.check()
    evaluator = Evaluator(document)
    root = evaluator.root
    risky = checker.graph.risky
    if risky:
        check = partial(_check_shape, constraint.order, evaluator.shape)
        combine((At(pointer) for pointer in risky), evaluator.shape, check)
    if root == NEVER or evaluator.emptiness.pruned(evaluator.shape(root)).is_empty:
        raise UnsatisfiableConstraint("no value is valid against the schema")
    writer = _Writer(
        evaluator=evaluator,
        whitespace=constraint.whitespace,
        order=constraint.order,
        is_canonical=_has_canonical_numbers(constraint),
        is_whole=document.root.draft <= Draft.DRAFT_4,
    )
    writer.note_source(constraint.text)
    return writer.document(root)


def _has_canonical_numbers(constraint: JsonSchema) -> bool:
    if constraint.numbers is NumberSpelling.AUTO:
        return constraint.whitespace is Whitespace.COMPACT
    return constraint.numbers is NumberSpelling.CANONICAL


def _check_shape(
    order: PropertyOrder, shape_of: Callable[[Formula], Shape], shape: Shape, pointer: str
) -> None:
    """Raises where a shape cannot be written."""
    if order is PropertyOrder.ANY and len(shape.objects) > MAX_ANY_ORDER:
        raise UnsupportedConstraint(
            f"{len(shape.objects)} alternatives of objects are too many for keys in any order",
            pointer=pointer,
            keyword="oneOf",
            hint="ask for the schema's order of keys, or tell the alternatives apart by a key with a const in each",
        )
    if any(array.has_duplicates and not is_repetition_known(array, shape_of) for array in shape.arrays):
        raise UnsupportedConstraint(
            "arrays that must hold an item twice are enforced only where the items are a few scalars",
            pointer=pointer,
            keyword="uniqueItems",
            hint="give the items an enum, or do not negate uniqueItems",
        )
    if any(one.step is not None or one.avoided for one in shape.numbers):
        number(shape.numbers, is_canonical=False)
    for one in shape.objects:
        if len(one.rules) > MAX_RULES:
            key_spaces(one)


def object_expression(constraint: JsonObject) -> Expression:
    """Any JSON object."""
    return schema_expression(JsonSchema(text=_FREE_OBJECT, whitespace=constraint.whitespace))


class Key:
    """Content that names a language. Its hash is computed once, as it is part of many other keys."""

    __slots__ = ("_content", "_hash")

    def __init__(self, content: tuple[Hashable, ...]) -> None:
        self._content = content
        self._hash = hash(content)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Key) and self._content == other._content)


@dataclass(slots=True, kw_only=True)
class _Writer:
    """Writes the values of one document.

    `is_canonical` speaks of numbers, `is_whole` of integers: in draft 4, `1.0` is none.
    """

    evaluator: Evaluator
    whitespace: Whitespace
    order: PropertyOrder
    is_canonical: bool
    is_whole: bool
    _source: SchemaText | None = field(init=False, default=None)
    _references: References = field(init=False)
    _values: dict[Formula, Expression] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._references = References(self.evaluator.document)

    def note_source(self, text: str) -> None:
        """Let the automaton read the text, and write what is plain in it by itself."""
        document = self.evaluator.document
        if document.has_dynamic_references or _LONE_SURROGATE.search(text):
            return  # what stands at a pointer depends on the way to it, or is no text
        self._source = SchemaText(
            key=self._key(document.digest, ALWAYS),
            text=text.encode(),
            has_hidden_siblings=document.draft <= Draft.DRAFT_7,
            spelling=_spelling(self.whitespace, self.order, self.is_canonical, self.is_whole),
            value=self._at,
        )

    def document(self, root: Formula) -> Expression:
        """A whole text: the value, with whitespace around it where that is allowed."""
        value = self.value(root)
        if self.whitespace is Whitespace.COMPACT:
            return value
        return Concatenation((space(self.whitespace), value, space(self.whitespace)))

    def value(self, formula: Formula) -> Expression:
        """Every value that satisfies a formula, built when it is reached unless it is at hand."""
        known = self._values.get(formula)
        if known is None:
            known = self._values[formula] = self._value(formula)
        return known

    def _value(self, formula: Formula) -> Expression:
        document = self.evaluator.document
        if not isinstance(formula, At) or formula.pointer.startswith("="):
            key = self._key(_ANY_DOCUMENT if formula in (ALWAYS, NEVER) else document.digest, formula)
            is_satisfiable = formula == ALWAYS or isinstance(formula, At)
            return Deferred(key, partial(self._build, formula, key), is_satisfiable)
        target = self._references.target(formula)
        if not isinstance(target, At):
            return self.value(target)
        key = self._key(document.digest, target)
        build = partial(self._build, target, key)
        is_satisfiable = is_plainly_satisfiable(document, target.pointer)
        if self._source is None:
            return Deferred(key, build, is_satisfiable)
        return SchemaValue(key, build, is_satisfiable, source=self._source, pointer=target.pointer)

    def _key(self, digest: bytes, formula: Formula) -> Key:
        return Key((digest, self.whitespace, self.order, self.is_canonical, formula))

    def shape(self, formula: Formula) -> Shape:
        """The shape of a formula."""
        return self.evaluator.shape(formula)

    def _at(self, pointer: str) -> Expression:
        """The value of a subschema, written now."""
        return self._build(At(pointer), self._key(self.evaluator.document.digest, At(pointer)))

    def _build(self, formula: Formula, key: Hashable) -> Expression:
        try:
            return self.shape_text(self.shape(formula), key)
        except RecursionError as error:
            where = pointer_of(formula) or "/"
            raise CompileLimitExceeded(
                f"subschemas at {where} refer to each other too deeply", limit="depth"
            ) from error

    def shape_text(self, shape: Shape, key: Hashable) -> Expression:
        """Every value of a shape.

        Evidently empty parts are left out first: in any order, an object that lacks a possible value for a
        required member would be found to be a dead end only after every subset of its members was tried.
        """
        shape = self.evaluator.emptiness.pruned(shape)
        options: list[Expression] = []
        if shape.null:
            options.append(Literal(b"null"))
        options += [Literal(b"true" if value else b"false") for value in sorted(shape.booleans)]
        if shape.numbers:
            options.append(number(shape.numbers, is_canonical=self.is_canonical, is_whole=self.is_whole))
        if shape.strings != NO_TEXT:
            options.append(string(shape.strings))
        for index, array in enumerate(shape.arrays):
            options.append(ArrayText(shape=array, key=(key, index), values=self).expression())
        for index, one in enumerate(shape.objects):
            writer = ObjectText if self.order is PropertyOrder.SCHEMA else AnyOrderText
            options.append(writer(shape=one, key=(key, index), values=self).expression())
        return alternation(options)


@cache
def _spelling(
    whitespace: Whitespace, order: PropertyOrder, is_canonical: bool, is_whole: bool
) -> SchemaSpelling:
    """What the values of all documents have in common; any value is written by a document of its own."""
    writer = _Writer(
        evaluator=Evaluator(Document("true")),
        whitespace=whitespace,
        order=order,
        is_canonical=is_canonical,
        is_whole=is_whole,
    )
    return SchemaSpelling(
        any_value=writer.value(ALWAYS),
        number=number(ALL_NUMBERS, is_canonical=is_canonical, is_whole=is_whole),
        integer=number(INTEGERS, is_canonical=is_canonical, is_whole=is_whole),
        string=ANY_STRING,
        character=ANY_CHARACTER,
        key_text=ANY_KEY_TEXT,
        space=space(whitespace),
        colon=colon(whitespace),
        comma=comma(whitespace),
        has_fixed_order=order is PropertyOrder.SCHEMA,
        keywords=tuple(sorted(OPERATIVE)),
    )
