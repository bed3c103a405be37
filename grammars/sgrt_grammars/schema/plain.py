"""Subschemas that some value evidently satisfies, seen at a glance and without working out their shapes.

The automaton offers a key only if its value can be completed; this spares it from building every value to know.
"""

from __future__ import annotations

from sgrt_grammars.schema.document import Document
from sgrt_grammars.schema.keywords import KEYWORDS, Treatment

OPERATIVE = frozenset(name for name, row in KEYWORDS.items() if row.treatment is Treatment.ENFORCED) | {
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
}
"""The keywords that say something about a value. All others are annotations, names, or unknown."""
_COMBINING = frozenset(
    ("enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "$ref", "$dynamicRef", "$recursiveRef")
)
_SCALARS = frozenset(("string", "number", "integer", "boolean", "null"))
_LOOSE = {
    "object": frozenset(("type", "properties", "patternProperties", "additionalProperties", "maxProperties")),
    "array": frozenset(("type", "items", "prefixItems", "additionalItems", "maxItems", "uniqueItems")),
}
"""Keywords that an empty object or array satisfies, whatever they hold."""
_NAMED_ONLY = frozenset(("type", "properties", "additionalProperties", "required"))
_MAX_DEPTH = 8


def is_plainly_satisfiable(document: Document, pointer: str, depth: int = 0) -> bool:
    """Whether some value satisfies the subschema; False where that takes more than a look."""
    if pointer.startswith("="):
        return True
    schema = document.at(pointer).schema
    if isinstance(schema, bool):
        return schema
    keywords = schema.keys() & OPERATIVE
    if "type" not in keywords and not keywords & _COMBINING:
        return True  # null satisfies every keyword that speaks of another type
    kind = schema.get("type")
    if isinstance(kind, list):
        return keywords == {"type"} or ("null" in kind and not keywords & _COMBINING)
    if keywords == {"enum"} or keywords == {"const"}:
        return bool(schema.get("enum", (0,)))
    if kind in _SCALARS:
        return keywords <= {"type", "format"} or _is_loose_scalar(schema, keywords)
    if kind == "object" and keywords <= _NAMED_ONLY:
        return _has_plain_members(document, pointer, schema, depth)
    return keywords <= _LOOSE.get(str(kind), frozenset())


def _is_loose_scalar(schema: dict[str, object], keywords: set[str]) -> bool:
    if keywords <= {"type", "enum"} and schema["type"] == "string":
        options = schema["enum"]
        return isinstance(options, list) and any(isinstance(option, str) for option in options)
    if keywords <= {"type", "minLength", "maxLength"} and schema["type"] == "string":
        low, high = schema.get("minLength", 0), schema.get("maxLength", 1)
        return isinstance(low, int) and isinstance(high, int) and (low <= high or "maxLength" not in schema)
    return len(keywords) == 2 and bool(keywords & {"minimum", "maximum"}) and schema["type"] != "boolean"


def _has_plain_members(document: Document, pointer: str, schema: dict[str, object], depth: int) -> bool:
    required, properties = schema.get("required", ()), schema.get("properties", {})
    if not isinstance(required, list | tuple) or not isinstance(properties, dict) or depth > _MAX_DEPTH:
        return False
    return all(
        name in properties
        and is_plainly_satisfiable(document, f"{pointer}/properties/{_escaped(name)}", depth + 1)
        for name in required
    )


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
