"""The grammar of an object with bare keys whose strings stand between quote marks."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sgrt_grammars.constraint import AnyText, Choice, Constraint, OneOf, Repeat, Text, Token
from sgrt_grammars.constraint import Sequence as InSequence
from sgrt_grammars.errors import UnsupportedConstraint
from sgrt_grammars.tools.tagged_grammar import Property, json_value, properties_of, separated
from sgrt_grammars.tools.tool import Tool

_HINT = "use a simpler schema, or a tool format whose arguments are JSON"
_SCALARS = frozenset({"integer", "number", "boolean", "null"})
_NOTES = frozenset({"type", "title", "description", "default", "examples"})
_DEPTH = 32


def bare_object(tool: Tool, quote: tuple[Constraint, ...]) -> tuple[Constraint, ...]:
    """The arguments of a tool.

    Raises:
        UnsupportedConstraint: a schema cannot be written in this notation.
    """
    return (_object(properties_of(tool), tool, quote, "", _DEPTH),)


def _object(
    items: tuple[Property, ...], tool: Tool, quote: tuple[Constraint, ...], path: str, depth: int
) -> Constraint:
    pairs: list[Constraint] = []
    for item in items:
        pointer = f"{path}/properties/{item.name}"
        if not item.name or any(character in item.name for character in "{}[]:,<\n"):
            raise UnsupportedConstraint("the name cannot stand as a bare key", pointer=pointer, hint=_HINT)
        value = _value(item.schema, tool, quote, pointer, depth - 1)
        pairs.append(InSequence(parts=(Text(text=f"{item.name}:"), value)))
    return InSequence(parts=(Text(text="{"), *separated(items, pairs, ","), Text(text="}")))


def _value(schema: object, tool: Tool, quote: tuple[Constraint, ...], path: str, depth: int) -> Constraint:
    if depth == 0:
        raise UnsupportedConstraint(f"nested deeper than {_DEPTH} levels", pointer=path, hint=_HINT)
    if not isinstance(schema, Mapping):
        raise _unsupported(path, "a schema that allows anything")
    kind = schema.get("type")
    if isinstance(schema.get("enum"), list):
        return OneOf(options=tuple(_literal(value, quote, path) for value in schema["enum"]))
    if "const" in schema:
        return _literal(schema["const"], quote, path)
    if kind == "string":
        _only(schema, _NOTES, path)
        return _quoted(quote)
    if kind in _SCALARS:
        return json_value(tool, schema)
    if kind == "array":
        _only(schema, _NOTES | {"items"}, path)
        item = _value(schema.get("items"), tool, quote, f"{path}/items", depth - 1)
        return InSequence(parts=(Text(text="["), Repeat(body=item, separator=","), Text(text="]")))
    if kind == "object":
        inner = Tool(name=tool.name, parameters=_dumped(schema))
        return _object(properties_of(inner), tool, quote, path, depth - 1)
    return _union(schema, tool, quote, path, depth)


def _union(
    schema: Mapping[str, object], tool: Tool, quote: tuple[Constraint, ...], path: str, depth: int
) -> Constraint:
    options = schema.get("anyOf")
    kind = schema.get("type")
    if isinstance(kind, list):
        rest = {key: value for key, value in schema.items() if key != "type"}
        options = [{**rest, "type": item} for item in kind]
    if not isinstance(options, list) or not options:
        raise _unsupported(path, "this schema")
    return OneOf(options=tuple(_value(option, tool, quote, path, depth - 1) for option in options))


def _quoted(quote: tuple[Constraint, ...]) -> Constraint:
    first = quote[0]
    body = AnyText() if isinstance(first, Token) else AnyText(without=(_text_of(first),))
    return InSequence(parts=(*quote, body, *quote))


def _literal(value: object, quote: tuple[Constraint, ...], path: str) -> Constraint:
    if isinstance(value, str):
        inner = (Choice(options=(value,)),) if value else ()
        return InSequence(parts=(*quote, *inner, *quote))
    if value is None or isinstance(value, bool | int | float):
        return Text(text=_dumped(value))
    raise _unsupported(path, "an enum of objects or arrays")


def _only(schema: Mapping[str, object], allowed: frozenset[str], path: str) -> None:
    for keyword in schema:
        if keyword not in allowed:
            raise UnsupportedConstraint(
                "this tool format cannot hold it",
                pointer=f"{path}/{keyword}",
                keyword=str(keyword),
                hint=_HINT,
            )


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text_of(mark: Constraint) -> str:
    assert isinstance(mark, Text), "a mark is spelled by texts and tokens"
    return mark.text


def _unsupported(path: str, what: str) -> UnsupportedConstraint:
    return UnsupportedConstraint(f"{what} cannot be written in this tool format", pointer=path, hint=_HINT)
