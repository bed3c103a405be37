"""Grammars of arguments that are written one by one: as tags, or as Python keyword arguments.

Properties come in the schema's order; those that are not required may be left out. Such a notation says less
than JSON Schema can ask for, so what it cannot say is refused.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from sgrt_grammars.constraint import (
    AnyText,
    Choice,
    Constraint,
    JsonSchema,
    OneOf,
    Regex,
    RegexDialect,
    Repeat,
    Text,
    Token,
)
from sgrt_grammars.constraint import Sequence as InSequence
from sgrt_grammars.errors import UnsupportedConstraint
from sgrt_grammars.tools.parts import TaggedArguments
from sgrt_grammars.tools.tool import Tool

Spell = Callable[[str], tuple[Constraint, ...]]

_HINT = "use a tool format whose arguments are JSON, or a simpler schema"
_OBJECT_KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "title", "description", "$defs",
        "definitions", "$schema", "$id", "$comment", "examples", "default",
    }
)  # fmt: skip
_TEXT_KEYWORDS = frozenset(
    {"type", "title", "description", "default", "examples", "$comment", "enum", "const", "pattern",
     "minLength", "maxLength", "deprecated", "readOnly", "writeOnly"}
)  # fmt: skip
# Patterns of plain characters, sets and counts between ^ and $: what they match holds no mark.
_CLOSED_PATTERN = re.compile(
    r"\^(?:[A-Za-z0-9 _@:/,#-]|\\[dw.+\-]|\[[A-Za-z0-9 _.@:/,#+-]+\]|[{}0-9,?*+|()])*\$"
)


class Property(NamedTuple):
    """A property of the arguments."""

    name: str
    schema: object
    is_required: bool


def properties_of(tool: Tool) -> tuple[Property, ...]:
    """The properties of a tool's arguments.

    Raises:
        UnsupportedConstraint: the schema asks for more than properties of their own kind.
    """
    schema = tool.schema
    for keyword in schema:
        if keyword not in _OBJECT_KEYWORDS:
            raise UnsupportedConstraint(
                f"the arguments of {tool.name} cannot be held to it in this tool format",
                pointer=f"/{keyword}",
                keyword=str(keyword),
                hint=_HINT,
            )
    found = schema.get("properties", {})
    required = schema.get("required", [])
    if not isinstance(found, Mapping) or not isinstance(required, list):
        raise UnsupportedConstraint(
            "properties must be an object and required a list", pointer="/properties", hint=_HINT
        )
    names = {name for name in required if isinstance(name, str)}
    missing = sorted(names - set(found))
    items = [Property(str(name), value, name in names) for name, value in found.items()]
    items += [Property(name, True, is_required=True) for name in missing]
    return tuple(items)


def json_value(tool: Tool, schema: object) -> Constraint:
    """A value as JSON text; the definitions of the tool's schema stay within reach."""
    if isinstance(schema, Mapping):
        shared = {key: tool.schema[key] for key in ("$defs", "definitions") if key in tool.schema}
        schema = {**shared, **schema}
    return JsonSchema(text=json.dumps(schema, ensure_ascii=False))


def optional(part: Constraint) -> Constraint:
    """`part`, or nothing."""
    return Repeat(body=part, maximum=1)


def tagged_arguments(part: TaggedArguments, tool: Tool, spell: Spell) -> tuple[Constraint, ...]:
    """The tags of all properties."""
    result: list[Constraint] = []
    for item in properties_of(tool):
        tag = _tag(part, tool, item, spell)
        result.append(tag if item.is_required else optional(tag))
    return tuple(result)


def python_arguments(tool: Tool) -> tuple[Constraint, ...]:
    """`(name=value, ...)`; values are written as JSON, which readers of this format take as well."""
    items = properties_of(tool)
    pairs = [_pair(tool, item) for item in items]
    return (Text(text="("), *separated(items, pairs, ", "), Text(text=")"))


def separated(
    items: tuple[Property, ...], written: list[Constraint], separator: str
) -> tuple[Constraint, ...]:
    """The written properties with `separator` between those that are there."""
    first = next((index for index, item in enumerate(items) if item.is_required), None)
    if first is None:
        starts = [
            InSequence(parts=(written[index], *_following(items, written, index + 1, separator)))
            for index in range(len(items))
        ]
        return (optional(OneOf(options=tuple(starts))),) if starts else ()
    before = [optional(InSequence(parts=(part, Text(text=separator)))) for part in written[:first]]
    return (*before, written[first], *_following(items, written, first + 1, separator))


def _following(
    items: tuple[Property, ...], written: list[Constraint], start: int, separator: str
) -> tuple[Constraint, ...]:
    result: list[Constraint] = []
    for item, part in zip(items[start:], written[start:], strict=True):
        both = InSequence(parts=(Text(text=separator), part))
        result.append(both if item.is_required else optional(both))
    return tuple(result)


def _pair(tool: Tool, item: Property) -> Constraint:
    if not item.name.isidentifier():
        raise UnsupportedConstraint(
            f"{item.name!r} is no Python name",
            pointer=f"/properties/{item.name}",
            keyword="properties",
            hint=_HINT,
        )
    return InSequence(parts=(Text(text=f"{item.name}="), json_value(tool, item.schema)))


def _tag(part: TaggedArguments, tool: Tool, item: Property, spell: Spell) -> Constraint:
    key = html.escape(item.name, quote=True) if part.is_escaped else item.name
    is_text = _is_text(item.schema)
    if part.attribute is None:
        middle = spell("".join(part.between))
    else:
        kind = part.attribute.string if is_text else part.attribute.other or _json_type(item.schema)
        middle = spell(f"{part.attribute.before}{kind}{part.attribute.after}")
    end = spell(part.after)
    value = _text_value(item, end[0]) if is_text else json_value(tool, item.schema)
    padding = spell(part.padding)
    pieces = (
        *spell(part.before), Text(text=key), *middle, *padding, value, *padding, *end, *spell(part.separator),
    )  # fmt: skip
    return InSequence(parts=pieces)


def _is_text(schema: object) -> bool:
    """Whether a schema allows strings and nothing else."""
    if not isinstance(schema, Mapping):
        return False
    if "enum" in schema:
        values = schema["enum"]
        return isinstance(values, list) and bool(values) and all(isinstance(value, str) for value in values)
    return schema.get("type") == "string" or isinstance(schema.get("const"), str)


def _json_type(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "integer":
        return "number"
    return kind if isinstance(kind, str) else "object"


def _text_value(item: Property, end: Constraint) -> Constraint:
    """A bare string up to its end mark.

    Raises:
        UnsupportedConstraint: the schema asks for something that bare text cannot be held to.
    """
    schema = item.schema
    assert isinstance(schema, Mapping), "only a mapping allows strings alone"
    for keyword in schema:
        if keyword not in _TEXT_KEYWORDS:
            raise _unsupported(item, str(keyword))
    if "const" in schema:
        return Text(text=str(schema["const"])) if schema["const"] else InSequence(parts=())
    if "enum" in schema:
        return Choice(options=tuple(schema["enum"]))
    if "pattern" in schema:
        return _pattern(item, schema)
    if "minLength" in schema or "maxLength" in schema:
        low, high = schema.get("minLength", 0), schema.get("maxLength", "")
        return Regex(pattern=rf"[^<\[]{{{low},{high}}}")
    return AnyText() if isinstance(end, Token) else AnyText(without=(_text_of(end),))


def _pattern(item: Property, schema: Mapping[str, object]) -> Constraint:
    pattern = schema["pattern"]
    has_length = "minLength" in schema or "maxLength" in schema
    if has_length or not isinstance(pattern, str) or not _CLOSED_PATTERN.fullmatch(pattern):
        raise _unsupported(item, "pattern")
    return Regex(pattern=pattern, dialect=RegexDialect.ECMA)


def _text_of(mark: Constraint) -> str:
    assert isinstance(mark, Text), "a mark is spelled by texts and tokens"
    return mark.text


def _unsupported(item: Property, keyword: str) -> UnsupportedConstraint:
    return UnsupportedConstraint(
        "bare text of this tool format cannot be held to it",
        pointer=f"/properties/{item.name}/{keyword}",
        keyword=keyword,
        hint=_HINT,
    )
