"""Constraints as JSON and back: an object with `type` and the fields of that constraint, nested as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import get_args

from sgrt.errors import InvalidRequest
from sgrt_grammars.constraint import Constraint
from sgrt_grammars.errors import InvalidConstraint

_MAX_DEPTH = 64
_KINDS: dict[str, type[Constraint]] = {kind.__name__: kind for kind in get_args(Constraint)}
_NESTED = frozenset({"parts", "options", "tags", "body", "begin", "end"})
"""Fields that hold constraints, or lists of them."""


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
    arguments = {key: _field(key, item, f"{param}.{key}", depth) for key, item in given.items()}
    try:
        return kind(**arguments)  # type: ignore[arg-type]  # a constraint checks its own fields
    except InvalidConstraint as error:
        place = f"{param}.{error.pointer.partition('.')[2]}"
        raise InvalidRequest(f"{place}: {error}", param=place) from None
    except TypeError as error:
        raise InvalidRequest(f"{param}: {error}", param=param) from None


def _field(name: str, value: object, param: str, depth: int) -> object:
    if name in _NESTED and isinstance(value, Mapping):
        return _read(value, param, depth - 1)
    if name in _NESTED and isinstance(value, list):
        return [
            _read(item, f"{param}[{i}]", depth - 1) if isinstance(item, Mapping) else item
            for i, item in enumerate(value)
        ]
    return value
