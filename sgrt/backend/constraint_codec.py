"""Constraints as JSON and back: an object with `type` and the fields of that constraint, nested as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import get_args

from sgrt.errors import InvalidRequest
from sgrt_grammars.constraint import (
    Constraint,
    GrammarDialect,
    NumberSpelling,
    PropertyOrder,
    RegexDialect,
    Whitespace,
)

_MAX_DEPTH = 64
_KINDS: dict[str, type[Constraint]] = {kind.__name__: kind for kind in get_args(Constraint)}
_ENUMS: dict[tuple[str, str], type[Enum]] = {
    ("JsonSchema", "whitespace"): Whitespace,
    ("JsonSchema", "order"): PropertyOrder,
    ("JsonSchema", "numbers"): NumberSpelling,
    ("JsonObject", "whitespace"): Whitespace,
    ("Regex", "dialect"): RegexDialect,
    ("ContextFree", "dialect"): GrammarDialect,
}
_TEXT_LISTS = frozenset({("Choice", "options"), ("AnyText", "without"), ("StructuralTag", "triggers")})
_CONSTRAINT_LISTS = frozenset({("Sequence", "parts"), ("OneOf", "options"), ("StructuralTag", "tags")})
_CONSTRAINTS = frozenset({("Repeat", "body"), ("Tag", "begin"), ("Tag", "body"), ("Tag", "end")})
_NUMBERS = frozenset({("Token", "token_id"), ("Repeat", "minimum"), ("Repeat", "maximum")})
_FLAGS = frozenset({("StructuralTag", "required"), ("StructuralTag", "stop_after_first")})


def to_json(constraint: Constraint) -> dict[str, object]:
    """The JSON object of a constraint."""
    result: dict[str, object] = {"type": type(constraint).__name__}
    for field in fields(constraint):
        result[field.name] = _plain(getattr(constraint, field.name))
    return result


def from_json(value: object, *, param: str = "constraint") -> Constraint:
    """The constraint of a JSON object.

    Raises:
        InvalidRequest: a type or field is unknown, missing or of the wrong kind; `param` says where.
    """
    return _read(value, param, _MAX_DEPTH)


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str | bool | int | None):
        return value
    assert type(value) in _KINDS.values(), f"{type(value).__name__} is no constraint"
    return to_json(value)  # type: ignore[arg-type]  # asserted above


def _read(value: object, param: str, depth: int) -> Constraint:
    if depth == 0:
        raise InvalidRequest(f"{param}: nested deeper than {_MAX_DEPTH} levels", param=param)
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{param}: an object is needed", param=param)
    name = value.get("type")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InvalidRequest(f"{param}.type: {name!r} is not one of {', '.join(_KINDS)}", param=param)
    assert isinstance(name, str), "only texts are names of kinds"
    known = {field.name for field in fields(kind)}
    given = {key: item for key, item in value.items() if key != "type"}
    for key in given:
        if key not in known:
            raise InvalidRequest(f"{param}.{key}: {name} has no such field", param=f"{param}.{key}")
    arguments = {key: _field((name, key), item, f"{param}.{key}", depth) for key, item in given.items()}
    try:
        return kind(**arguments)  # type: ignore[arg-type]  # every field was read by its kind
    except TypeError as error:
        raise InvalidRequest(f"{param}: {error}", param=param) from None


def _field(place: tuple[str, str], value: object, param: str, depth: int) -> object:
    if place in _CONSTRAINTS:
        return _read(value, param, depth - 1)
    if place in _CONSTRAINT_LISTS:
        items = [_read(item, f"{param}[{i}]", depth - 1) for i, item in enumerate(_list(value, param))]
        return tuple(items)
    if place in _TEXT_LISTS:
        return tuple(_text(item, f"{param}[{i}]") for i, item in enumerate(_list(value, param)))
    if place in _ENUMS:
        return _member(_ENUMS[place], value, param)
    if place in _NUMBERS:
        return _number(place, value, param)
    if place in _FLAGS:
        if not isinstance(value, bool):
            raise InvalidRequest(f"{param}: true or false is needed", param=param)
        return value
    return _text(value, param)


def _member(kind: type[Enum], value: object, param: str) -> Enum:
    try:
        return kind(value)
    except ValueError:
        names = ", ".join(str(member.value) for member in kind)
        raise InvalidRequest(f"{param}: {value!r} is not one of {names}", param=param) from None


def _number(place: tuple[str, str], value: object, param: str) -> int | None:
    if value is None and place == ("Repeat", "maximum"):
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise InvalidRequest(f"{param}: a number from 0 on is needed", param=param)
    return value


def _list(value: object, param: str) -> list[object]:
    if not isinstance(value, list):
        raise InvalidRequest(f"{param}: a list is needed", param=param)
    return value


def _text(value: object, param: str) -> str:
    if not isinstance(value, str):
        raise InvalidRequest(f"{param}: text is needed", param=param)
    return value
