"""JSON Schemas of Python types, closed and free of annotations that say nothing about shape."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

import typing_extensions
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.types.closed_schema import REFUSED_FORMATS, ClosedSchema

# Pydantic writes these beside the shape. They constrain nothing, so a compiler that refuses what it
# does not enforce should not have to know them.
_ANNOTATIONS = frozenset(
    {"title", "default", "discriminator", "examples", "deprecated", "readOnly", "writeOnly"}
)
TypeForm: TypeAlias = Any  # something a variable can be annotated with


def adapter_of(annotation: object) -> TypeAdapter[Any]:
    """A pydantic adapter for any type a program may ask for.

    Raises:
        InvalidRequest: the type cannot be described.
    """
    try:
        return TypeAdapter(_portable(annotation))
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise InvalidRequest(
            f"type: {annotation!r} has no JSON form: {error.message}", param="type"
        ) from error


def schema_of(adapter: TypeAdapter[Any]) -> dict[str, object]:
    """The JSON Schema of an adapter's type; objects with named properties are closed.

    Raises:
        InvalidRequest: a part of the type has no JSON text.
    """
    try:
        schema = adapter.json_schema(schema_generator=ClosedSchema)
    except (PydanticInvalidForJsonSchema, PydanticUserError) as error:
        raise InvalidRequest(f"type: {error.message}", param="type") from error
    cleaned = _clean(schema, is_schema=True)
    assert isinstance(cleaned, dict), "a schema is an object"
    return cleaned


def schema_text(schema: Mapping[str, object] | bool) -> str:
    """A schema as JSON text, keys in the order given.

    Raises:
        InvalidRequest: the schema holds values that are not JSON.
    """
    try:
        return json.dumps(schema, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"schema: not a JSON value: {error}", param="schema") from error


# Keywords whose values map names to schemas; names in them are never annotations.
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_VALUES = frozenset({"const", "enum", "required"})


def _clean(node: object, *, is_schema: bool) -> object:
    if isinstance(node, list):
        return [_clean(item, is_schema=is_schema) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned: dict[str, object] = {}
    for key, value in node.items():
        if is_schema and key in _ANNOTATIONS:
            continue
        if is_schema and key in _VALUES:
            cleaned[key] = value
            continue
        if is_schema and key == "format" and value in REFUSED_FORMATS:
            raise InvalidRequest(f"type: format {value!r}: {REFUSED_FORMATS[value]}", param="type")
        cleaned[key] = _clean(value, is_schema=not (is_schema and key in _NAMED_SCHEMAS))
    if is_schema and "properties" in cleaned:
        cleaned.setdefault("additionalProperties", False)
    return cleaned


def _portable(annotation: object) -> TypeForm:
    """The annotation with `typing.TypedDict`, which pydantic refuses before Python 3.12, made portable."""
    if typing.is_typeddict(annotation):
        return _portable_typed_dict(annotation)
    origin = get_origin(annotation)
    if origin is None or origin is typing.Literal:
        return annotation
    arguments = get_args(annotation)
    if origin is Annotated:
        return Annotated[(_portable(arguments[0]), *arguments[1:])]
    converted = tuple(_portable(argument) for argument in arguments)
    if converted == arguments:
        return annotation
    if origin is types.UnionType or origin is Union:
        return Union[converted]  # noqa: UP007 - built from a runtime tuple
    return origin[converted]


def _portable_typed_dict(annotation: TypeForm) -> TypeForm:
    hints = typing_extensions.get_type_hints(annotation, include_extras=True)
    required: frozenset[str] = annotation.__required_keys__
    fields = {}
    for name, hint in hints.items():
        inner = _portable(_without_requirement(hint))
        # With postponed annotations `__required_keys__` does not know of NotRequired.
        is_required = name in required and not _is_marked(hint, typing.NotRequired)
        fields[name] = (
            typing_extensions.Required[inner] if is_required else typing_extensions.NotRequired[inner]
        )
    return typing_extensions.TypedDict(annotation.__name__, fields)  # type: ignore[operator]  # dynamic form


def _without_requirement(hint: object) -> object:
    if _is_marked(hint, typing.Required) or _is_marked(hint, typing.NotRequired):
        return get_args(hint)[0]
    return hint


def _is_marked(hint: object, marker: object) -> bool:
    origin: object = get_origin(hint)
    return origin is marker
