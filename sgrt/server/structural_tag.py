"""Structural tags on the wire, in the two spellings in use, as Constraints.

The older spelling lists `structures` (begin, schema, end) and `triggers`; the newer has a `format` tree whose
nodes are named by `type`. A node that is not known here is refused by its path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from sgrt.server.errors import bad_request
from sgrt_grammars.constraint import (
    AnyText,
    Constraint,
    JsonSchema,
    OneOf,
    Regex,
    Repeat,
    Sequence,
    StructuralTag,
    Tag,
    Text,
)
from sgrt_grammars.notation.detect import context_free

_MAX_DEPTH = 32


def structural_tag(value: Mapping[str, object], *, param: str) -> Constraint:
    """The constraint a structural tag stands for.

    Raises:
        ApiError: a node is unknown or incomplete; `param` is extended by its path.
    """
    if "format" in value:
        return _node(value["format"], f"{param}.format", _MAX_DEPTH)
    return _legacy(value, param)


def _legacy(value: Mapping[str, object], param: str) -> StructuralTag:
    structures = _list(value.get("structures"), f"{param}.structures")
    tags: list[Tag] = []
    for index, structure in enumerate(structures):
        path = f"{param}.structures[{index}]"
        fields = _mapping(structure, path)
        tags.append(
            Tag(
                begin=Text(text=_text(fields, "begin", path)),
                body=_schema(fields, "schema", path),
                end=Text(text=_text(fields, "end", path)),
            )
        )
    triggers = tuple(_strings(value.get("triggers"), f"{param}.triggers"))
    return StructuralTag(triggers=triggers, tags=tuple(tags))


def _node(value: object, path: str, depth: int) -> Constraint:
    fields = _mapping(value, path)
    kind = fields.get("type")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise bad_request(
            f"{path}: type {kind!r} is not one of {', '.join(sorted(_READERS))}",
            param=path,
            code="unsupported_schema",
        )
    if depth == 0:
        raise bad_request(f"{path}: nested deeper than {_MAX_DEPTH} levels", param=path)
    return reader(fields, path, depth - 1)


def _const(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return Text(text=_text(fields, "value", path))


def _json_schema(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return _schema(fields, "json_schema", path)


def _any_text(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return AnyText(without=tuple(_strings(fields.get("excludes", []), f"{path}.excludes")))


def _regex(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return Regex(pattern=_text(fields, "pattern", path))


def _grammar(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return context_free(_text(fields, "grammar", path))


def _sequence(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return Sequence(parts=_nodes(fields, "elements", path, depth))


def _one_of(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return OneOf(options=_nodes(fields, "elements", path, depth))


def _tag(fields: Mapping[str, object], path: str, depth: int) -> Tag:
    return Tag(
        begin=Text(text=_text(fields, "begin", path)),
        body=_node(fields.get("content"), f"{path}.content", depth),
        end=Text(text=_text(fields, "end", path)),
    )


def _triggered(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    return StructuralTag(
        triggers=tuple(_strings(fields.get("triggers"), f"{path}.triggers")),
        tags=_tags(fields, path, depth),
        required=_flag(fields, "at_least_one", path),
        stop_after_first=_flag(fields, "stop_after_first", path),
    )


def _separated(fields: Mapping[str, object], path: str, depth: int) -> Constraint:
    only_one = _flag(fields, "stop_after_first", path)
    return Repeat(
        body=OneOf(options=_tags(fields, path, depth)),
        minimum=1 if _flag(fields, "at_least_one", path) else 0,
        maximum=1 if only_one else None,
        separator=_text(fields, "separator", path),
    )


_Reader = Callable[[Mapping[str, object], str, int], Constraint]
_READERS: dict[str, _Reader] = {
    "const_string": _const,
    "json_schema": _json_schema,
    "any_text": _any_text,
    "regex": _regex,
    "grammar": _grammar,
    "sequence": _sequence,
    "or": _one_of,
    "tag": _tag,
    "triggered_tags": _triggered,
    "tags_with_separator": _separated,
}


def _nodes(fields: Mapping[str, object], name: str, path: str, depth: int) -> tuple[Constraint, ...]:
    items = _list(fields.get(name), f"{path}.{name}")
    return tuple(_node(item, f"{path}.{name}[{index}]", depth) for index, item in enumerate(items))


def _tags(fields: Mapping[str, object], path: str, depth: int) -> tuple[Tag, ...]:
    items = _list(fields.get("tags"), f"{path}.tags")
    return tuple(
        _tag(_mapping(item, f"{path}.tags[{index}]"), f"{path}.tags[{index}]", depth)
        for index, item in enumerate(items)
    )


def _schema(fields: Mapping[str, object], name: str, path: str) -> JsonSchema:
    schema = fields.get(name)
    if not isinstance(schema, dict | bool):
        raise bad_request(f"{path}.{name}: a JSON Schema is needed", param=f"{path}.{name}")
    return JsonSchema(text=json.dumps(schema, ensure_ascii=False))


def _text(fields: Mapping[str, object], name: str, path: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise bad_request(f"{path}.{name}: text is needed", param=f"{path}.{name}")
    return value


def _flag(fields: Mapping[str, object], name: str, path: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise bad_request(f"{path}.{name}: true or false is needed", param=f"{path}.{name}")
    return value


def _list(value: object, path: str) -> list[object]:
    if not isinstance(value, list) or not value:
        raise bad_request(f"{path}: a list with at least one entry is needed", param=path)
    return value


def _strings(value: object, path: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise bad_request(f"{path}: a list of texts is needed", param=path)
    return value


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise bad_request(f"{path}: an object is needed", param=path)
    return value
