"""The table of keywords: what each one takes, and how it is treated. `docs/schema.md` is made from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

Check = Callable[[object], str]
"""Says what is wrong with an operand; the empty text when nothing is."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")


class Treatment(Enum):
    """What happens to a keyword."""

    ENFORCED = "enforced"
    ANNOTATION = "annotation"
    REFERENCE = "reference"


class Children(Enum):
    """Where subschemas stand in a keyword's operand."""

    NONE = "none"
    ONE = "one"
    LIST = "list"
    ONE_OR_LIST = "one or list"
    MAP = "map"
    MAP_OR_NAMES = "map, or lists of names"
    DEFINITIONS = "definitions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """One row of the table."""

    name: str
    applies_to: str
    check: Check
    children: Children = Children.NONE
    treatment: Treatment = Treatment.ENFORCED
    note: str = ""


def is_number(value: object) -> bool:
    """Whether a parsed JSON value is a number (booleans are not)."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def as_count(value: object) -> int | None:
    """A non-negative integer, also when written `2.0`; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return int(value) if 0 <= value < 10**15 and value == int(value) else None


def _is_schema(value: object) -> bool:
    return isinstance(value, dict | bool)


def _anything(value: object) -> str:
    return ""


def _count(value: object) -> str:
    return "" if as_count(value) is not None else "must be a non-negative integer"


def _number(value: object) -> str:
    return "" if is_number(value) else "must be a number"


def _exclusive(value: object) -> str:
    return "" if is_number(value) or isinstance(value, bool) else "must be a number (or a boolean in draft 4)"


def _positive(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return "must be a number above 0"
    return "" if value > 0 else "must be a number above 0"


def _string(value: object) -> str:
    return "" if isinstance(value, str) else "must be a string"


def _boolean(value: object) -> str:
    return "" if isinstance(value, bool) else "must be a boolean"


def _names(value: object) -> str:
    is_fine = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return "" if is_fine else "must be an array of strings"


def _type(value: object) -> str:
    names = value if isinstance(value, list) else [value]
    unknown = [name for name in names if not isinstance(name, str) or name not in TYPES]
    return f"names no type: {unknown[0]!r} (known: {', '.join(TYPES)})" if unknown else ""


def _enumeration(value: object) -> str:
    return "" if isinstance(value, list) else "must be an array"


def _one(value: object) -> str:
    return "" if _is_schema(value) else "must be a schema (an object or a boolean)"


def _list(value: object) -> str:
    is_fine = isinstance(value, list) and bool(value) and all(_is_schema(one) for one in value)
    return "" if is_fine else "must be a non-empty array of schemas"


def _one_or_list(value: object) -> str:
    is_fine = _is_schema(value) or (isinstance(value, list) and all(_is_schema(one) for one in value))
    return "" if is_fine else "must be a schema or an array of schemas"


def _map(value: object) -> str:
    is_fine = isinstance(value, dict) and all(_is_schema(one) for one in value.values())
    return "" if is_fine else "must be an object whose values are schemas"


def _names_map(value: object) -> str:
    is_fine = isinstance(value, dict) and all(not _names(one) for one in value.values())
    return "" if is_fine else "must be an object whose values are arrays of strings"


def _mixed_map(value: object) -> str:
    is_fine = isinstance(value, dict) and all(_is_schema(one) or not _names(one) for one in value.values())
    return "" if is_fine else "must be an object whose values are schemas or arrays of strings"


def _enforced(name: str, applies_to: str, check: Check, note: str = "") -> Keyword:
    return Keyword(name=name, applies_to=applies_to, check=check, note=note)


def _applicator(name: str, applies_to: str, children: Children, note: str = "") -> Keyword:
    checks = {
        Children.ONE: _one,
        Children.LIST: _list,
        Children.ONE_OR_LIST: _one_or_list,
        Children.MAP: _map,
        Children.MAP_OR_NAMES: _mixed_map,
    }
    return Keyword(name=name, applies_to=applies_to, check=checks[children], children=children, note=note)


def _reference(name: str, note: str) -> Keyword:
    return Keyword(name=name, applies_to="any", check=_string, treatment=Treatment.REFERENCE, note=note)


def _annotation(name: str, check: Check = _anything, note: str = "") -> Keyword:
    return Keyword(name=name, applies_to="any", check=check, treatment=Treatment.ANNOTATION, note=note)


_ROWS = (
    _enforced("type", "any", _type, "`1.0` is an integer"),
    _enforced("enum", "any", _enumeration, "values of any type, in their canonical spelling; `1` is also `1.0`"),
    _enforced("const", "any", _anything, "as `enum` with one value"),
    _enforced("minimum", "number", _number, "exact decimal arithmetic"),
    _enforced("maximum", "number", _number, "exact decimal arithmetic"),
    _enforced("exclusiveMinimum", "number", _exclusive, "the boolean of draft 4 is understood"),
    _enforced("exclusiveMaximum", "number", _exclusive, "the boolean of draft 4 is understood"),
    _enforced("multipleOf", "number", _positive, "decimals too; refused when the scaled divisor exceeds the limit"),
    _enforced("minLength", "string", _count, "code points of the decoded string"),
    _enforced("maxLength", "string", _count, "code points of the decoded string"),
    _enforced("pattern", "string", _string, "ECMA-262 with `u`, searched; see regular expressions below"),
    _enforced("format", "string", _string, "see formats below; unknown names are annotations"),
    _enforced("minItems", "array", _count),
    _enforced("maxItems", "array", _count),
    _enforced("uniqueItems", "array", _boolean, "its negation only for items out of a few scalars, else refused"),
    _enforced("minContains", "array", _count, "with `contains`"),
    _enforced("maxContains", "array", _count, "with `contains`"),
    _enforced("required", "object", _names, "undeclared names too"),
    _enforced("minProperties", "object", _count),
    _enforced("maxProperties", "object", _count),
    Keyword(name="dependentRequired", applies_to="object", check=_names_map),
    _applicator("prefixItems", "array", Children.LIST),
    _applicator("items", "array", Children.ONE_OR_LIST, "the array of earlier drafts is understood"),
    _applicator("additionalItems", "array", Children.ONE, "where `items` is an array"),
    _applicator("contains", "array", Children.ONE),
    _applicator("unevaluatedItems", "array", Children.ONE),
    _applicator("properties", "object", Children.MAP),
    _applicator("patternProperties", "object", Children.MAP, "overlapping patterns are intersected"),
    _applicator("additionalProperties", "object", Children.ONE),
    _applicator("propertyNames", "object", Children.ONE),
    _applicator("dependentSchemas", "object", Children.MAP),
    _applicator("dependencies", "object", Children.MAP_OR_NAMES, "of drafts 4 to 7; understood in all"),
    _applicator("unevaluatedProperties", "object", Children.ONE),
    _applicator("allOf", "any", Children.LIST, "intersected; members in the order of the branches"),
    _applicator("anyOf", "any", Children.LIST),
    _applicator("oneOf", "any", Children.LIST, "exclusive, by complements of the other branches"),
    _applicator("not", "any", Children.ONE),
    _applicator("if", "any", Children.ONE),
    _applicator("then", "any", Children.ONE, "with `if`"),
    _applicator("else", "any", Children.ONE, "with `if`"),
    _reference("$ref", "local, by pointer, `$id` or `$anchor`; siblings count from 2019-09 on; remote ones are refused"),
    _reference("$dynamicRef", "resolved in its dynamic scope"),
    Keyword(name="$recursiveRef", applies_to="any", check=_string, treatment=Treatment.REFERENCE, note="of 2019-09"),
    _reference("$id", "sets the base of references"),
    _reference("id", "`$id` of draft 4"),
    _reference("$anchor", "a name for references"),
    _reference("$dynamicAnchor", "a name for dynamic references"),
    Keyword(name="$recursiveAnchor", applies_to="any", check=_boolean, treatment=Treatment.REFERENCE, note="of 2019-09"),
    Keyword(
        name="$defs", applies_to="any", check=_anything, children=Children.DEFINITIONS,
        treatment=Treatment.REFERENCE, note="holds targets of references",
    ),
    Keyword(
        name="definitions", applies_to="any", check=_anything, children=Children.DEFINITIONS,
        treatment=Treatment.REFERENCE, note="`$defs` of earlier drafts",
    ),
    _annotation("$schema", note="chooses the draft; 2020-12 by default"),
    _annotation("$comment"),
    _annotation("$vocabulary"),
    _annotation("title"),
    _annotation("description"),
    _annotation("default"),
    _annotation("examples"),
    _annotation("deprecated"),
    _annotation("readOnly"),
    _annotation("writeOnly"),
    _annotation("contentEncoding", note="an annotation by the specification"),
    _annotation("contentMediaType", note="an annotation by the specification"),
    _annotation("contentSchema", note="an annotation by the specification"),
)  # fmt: skip

KEYWORDS: dict[str, Keyword] = {row.name: row for row in _ROWS}
