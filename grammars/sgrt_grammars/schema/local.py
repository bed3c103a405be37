"""The shape that a schema's own typed keywords say, without references and applicators on the same value."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from sgrt_grammars.constraint import RegexDialect
from sgrt_grammars.errors import UnsupportedConstraint
from sgrt_grammars.regex.compile import pattern_language
from sgrt_grammars.regex.language import (
    ANY_TEXT,
    NOTHING,
    Language,
    both,
    either,
    length_between,
    outside,
    words,
)
from sgrt_grammars.schema.arrays import ANY_ARRAY, ArrayShape, Contains, normalized
from sgrt_grammars.schema.formats import format_language
from sgrt_grammars.schema.formula import ALWAYS, NEVER, At, Formula, conjunction
from sgrt_grammars.schema.keywords import as_count, is_number
from sgrt_grammars.schema.numbers import (
    ALL_NUMBERS,
    INTEGERS,
    NO_NUMBER,
    NumberRange,
    NumberSet,
    intersect_numbers,
)
from sgrt_grammars.schema.objects import ANY_OBJECT, Implication, Member, ObjectShape, Rule, speaks_of
from sgrt_grammars.schema.shape import ANYTHING, BOTH_BOOLEANS, NO_VALUE, Shape, unite

Operands = dict[str, object]

_NUMBER_KEYWORDS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_STRING_KEYWORDS = frozenset({"minLength", "maxLength", "pattern", "format"})
_ARRAY_KEYWORDS = frozenset({"minItems", "maxItems", "uniqueItems", "prefixItems", "items", "contains"})
_OBJECT_KEYWORDS = frozenset(
    {
        "required",
        "minProperties",
        "maxProperties",
        "dependentRequired",
        "dependencies",
        "properties",
        "patternProperties",
        "additionalProperties",
        "propertyNames",
    }
)


def type_names(schema: Operands) -> frozenset[str] | None:
    """The types a schema names; None when it names none, so that all are allowed."""
    operand = schema.get("type")
    if operand is None:
        return None
    names = operand if isinstance(operand, list) else [operand]
    return frozenset(str(name) for name in names)


def number_set(schema: Operands, types: frozenset[str] | None) -> NumberSet:
    """The numbers of a schema."""
    if types is None or "number" in types:
        base = ALL_NUMBERS
    elif "integer" in types:
        base = INTEGERS
    else:
        return NO_NUMBER
    if _NUMBER_KEYWORDS.isdisjoint(schema):
        return base
    low, is_low_open = _bound(schema, "minimum", "exclusiveMinimum", sign=1)
    high, is_high_open = _bound(schema, "maximum", "exclusiveMaximum", sign=-1)
    step = schema.get("multipleOf")
    bounds = NumberRange(
        low=low,
        is_low_open=is_low_open,
        high=high,
        is_high_open=is_high_open,
        step=None if step is None else as_fraction(step),
    )
    return () if bounds.is_empty else intersect_numbers(base, (bounds,))


def as_fraction(value: object) -> Fraction:
    """The exact value of a parsed JSON number."""
    assert isinstance(value, int | Decimal), "operands were checked to be numbers"
    return Fraction(value)


def _bound(schema: Operands, plain: str, exclusive: str, *, sign: int) -> tuple[Fraction | None, bool]:
    bound = schema.get(plain)
    strict = schema.get(exclusive)
    closed = None if bound is None else as_fraction(bound)
    if isinstance(strict, bool) or strict is None:
        return closed, bool(strict) and closed is not None
    open_bound = as_fraction(strict)
    if closed is None or (open_bound - closed) * sign >= 0:
        return open_bound, True
    return closed, False


def string_set(schema: Operands, types: frozenset[str] | None, pointer: str) -> Language:
    """The strings of a schema, decoded."""
    if types is not None and "string" not in types:
        return NOTHING
    if _STRING_KEYWORDS.isdisjoint(schema):
        return ANY_TEXT
    parts: list[Language] = []
    minimum, maximum = as_count(schema.get("minLength", 0)), schema.get("maxLength")
    parts.append(length_between(minimum or 0, None if maximum is None else as_count(maximum)))
    pattern = schema.get("pattern")
    if isinstance(pattern, str):
        parts.append(schema_pattern(pattern, f"{pointer}/pattern", "pattern"))
    name = schema.get("format")
    if isinstance(name, str):
        parts.append(format_language(name, pointer))
    return both(*parts)


def schema_pattern(text: str, pointer: str, keyword: str) -> Language:
    """The strings in which a pattern of a schema matches somewhere."""
    return pattern_language(text, RegexDialect.ECMA, is_full=False, pointer=pointer, keyword=keyword)


def array_shapes(
    schema: Operands, types: frozenset[str] | None, pointer: str, scope: tuple[str, ...]
) -> tuple[ArrayShape, ...]:
    """The arrays of a schema."""
    if types is not None and "array" not in types:
        return ()
    if _ARRAY_KEYWORDS.isdisjoint(schema):
        return (ANY_ARRAY,)
    prefix, rest = _items(schema, pointer, scope)
    maximum = schema.get("maxItems")
    shape = normalized(
        ArrayShape(
            prefix=prefix,
            rest=rest,
            minimum=as_count(schema.get("minItems", 0)) or 0,
            maximum=None if maximum is None else as_count(maximum),
            contains=_contains(schema, pointer, scope),
            is_unique=schema.get("uniqueItems") is True,
        )
    )
    return () if shape.is_empty else (shape,)


def _items(schema: Operands, pointer: str, scope: tuple[str, ...]) -> tuple[tuple[Formula, ...], Formula]:
    items = schema.get("items")
    prefix = schema.get("prefixItems")
    if isinstance(items, list):
        first = tuple(child(one, f"{pointer}/items/{index}", scope) for index, one in enumerate(items))
        return first, child(schema.get("additionalItems", True), f"{pointer}/additionalItems", scope)
    listed = prefix if isinstance(prefix, list) else []
    first = tuple(child(one, f"{pointer}/prefixItems/{index}", scope) for index, one in enumerate(listed))
    return first, child(True if items is None else items, f"{pointer}/items", scope)


def _contains(schema: Operands, pointer: str, scope: tuple[str, ...]) -> tuple[Contains, ...]:
    if "contains" not in schema:
        return ()
    minimum = as_count(schema.get("minContains", 1))
    maximum = schema.get("maxContains")
    if minimum == 0 and maximum is None:
        return ()
    item = child(schema["contains"], f"{pointer}/contains", scope)
    return (
        Contains(item=item, minimum=minimum or 0, maximum=None if maximum is None else as_count(maximum)),
    )


def child(schema: object, pointer: str, scope: tuple[str, ...]) -> Formula:
    """The formula of a subschema; trivial ones are recognized."""
    if schema is True or schema == {}:
        return ALWAYS
    return NEVER if schema is False else At(pointer, scope)


def object_shapes(
    schema: Operands, types: frozenset[str] | None, pointer: str, scope: tuple[str, ...], names: Language
) -> tuple[ObjectShape, ...]:
    """The objects of a schema whose keys are in `names` (the strings of `propertyNames`)."""
    if types is not None and "object" not in types:
        return ()
    if _OBJECT_KEYWORDS.isdisjoint(schema):
        return (ANY_OBJECT,)
    rules = _rules(schema, pointer, scope)
    if names != ANY_TEXT:
        rules.append(Rule(keys=outside(names), value=NEVER))
    implications = _implications(schema)
    required = _strings(schema.get("required"))
    maximum = schema.get("maxProperties")
    shape = ObjectShape(
        members=_members(schema, pointer, scope, rules),
        rules=tuple(rule for rule in _with_additional(rules, schema, pointer, scope) if rule.keys != NOTHING),
        required=frozenset(required),
        minimum=as_count(schema.get("minProperties", 0)) or 0,
        maximum=None if maximum is None else as_count(maximum),
        implications=implications,
    )
    involved = [name for one in implications for name in (one.trigger, *sorted(one.needed))]
    shape = shape.with_members((*required, *involved))
    return () if shape.is_empty else (shape,)


def _strings(operand: object) -> list[str]:
    return [name for name in operand if isinstance(name, str)] if isinstance(operand, list) else []


def _rules(schema: Operands, pointer: str, scope: tuple[str, ...]) -> list[Rule]:
    patterns = schema.get("patternProperties")
    if not isinstance(patterns, dict):
        return []
    base = f"{pointer}/patternProperties"
    return [
        Rule(
            keys=schema_pattern(text, base, "patternProperties"),
            value=child(one, f"{base}/{escaped(text)}", scope),
        )
        for text, one in patterns.items()
    ]


def _with_additional(rules: list[Rule], schema: Operands, pointer: str, scope: tuple[str, ...]) -> list[Rule]:
    value = child(schema.get("additionalProperties", True), f"{pointer}/additionalProperties", scope)
    if value == ALWAYS:
        return rules
    patterns = [rule.keys for rule in rules[: len(_mapping(schema.get("patternProperties")))]]
    return [*rules, Rule(keys=outside(either(*patterns)), value=value)]


def _members(schema: Operands, pointer: str, scope: tuple[str, ...], rules: list[Rule]) -> dict[str, Member]:
    members: dict[str, Member] = {}
    base = f"{pointer}/properties/"
    for name, one in _mapping(schema.get("properties")).items():
        value = child(one, base + escaped(name), scope)
        if rules:
            value = conjunction(value, *(rule.value for rule in rules if speaks_of(rule.keys, name)))
        members[name] = Member(value=value, is_declared=True)
    return members


def _implications(schema: Operands) -> tuple[Implication, ...]:
    found = {**_mapping(schema.get("dependencies")), **_mapping(schema.get("dependentRequired"))}
    return tuple(
        Implication(trigger=name, needed=frozenset(_strings(needed)))
        for name, needed in found.items()
        if isinstance(needed, list) and needed
    )


def _mapping(operand: object) -> dict[str, object]:
    return operand if isinstance(operand, dict) else {}


def escaped(name: str) -> str:
    """A key as a token of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1") if "~" in name or "/" in name else name


def value_shape(value: object, place: str, children: dict[str, object]) -> Shape:
    """The shape of exactly one value. Its items go into `children`, by a pointer below `place`."""
    if value is None:
        return Shape(null=True)
    if isinstance(value, bool):
        return Shape(booleans=frozenset({value}))
    if is_number(value):
        return Shape(numbers=(NumberRange.point(as_fraction(value)),))
    if isinstance(value, str):
        if any(0xD800 <= ord(character) < 0xE000 for character in value):
            raise UnsupportedConstraint("a lone surrogate is not a character", pointer=place, keyword="const")
        return Shape(strings=words([value]))
    if isinstance(value, list):
        items = tuple(_constant(one, f"{place}/{index}", children) for index, one in enumerate(value))
        return Shape(arrays=(ArrayShape(prefix=items, rest=NEVER, minimum=len(items), maximum=len(items)),))
    assert isinstance(value, dict), "JSON has no other values"
    members = {
        name: Member(value=_constant(one, f"{place}/{escaped(name)}", children), is_declared=True)
        for name, one in value.items()
    }
    closed = (Rule(keys=ANY_TEXT, value=NEVER),)
    return Shape(objects=(ObjectShape(members=members, rules=closed, required=frozenset(members)),))


def _constant(value: object, place: str, children: dict[str, object]) -> Formula:
    children[place] = value
    return At(place)


def enumeration_shape(values: list[object], place: str, children: dict[str, object]) -> Shape:
    """The shape of any one of the values."""
    texts = [value for value in values if isinstance(value, str)]
    others = [(index, value) for index, value in enumerate(values) if not isinstance(value, str)]
    shapes = [value_shape(value, f"{place}/{index}", children) for index, value in others]
    for text in texts:
        if not text.isascii():
            value_shape(text, place, children)
    return unite([Shape(strings=words(texts)) if texts else NO_VALUE, *shapes])


def typed_shape(schema: Operands, pointer: str, scope: tuple[str, ...], names: Language) -> Shape:
    """What all typed keywords of a schema say together."""
    types = type_names(schema)
    shape = Shape(
        null=types is None or "null" in types,
        booleans=BOTH_BOOLEANS if types is None or "boolean" in types else frozenset(),
        numbers=number_set(schema, types),
        strings=string_set(schema, types, pointer),
        arrays=array_shapes(schema, types, pointer, scope),
        objects=object_shapes(schema, types, pointer, scope, names),
    )
    is_open = types is None and shape.numbers == ALL_NUMBERS and shape.strings == ANY_TEXT
    if is_open and shape.arrays == (ANY_ARRAY,) and shape.objects == (ANY_OBJECT,):
        return ANYTHING
    return shape
