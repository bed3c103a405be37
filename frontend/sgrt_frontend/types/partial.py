"""Objects of a type from the part of their JSON that is there: fields that are missing are missing."""

from __future__ import annotations

import enum
import types
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from sgrt_frontend.types.json_schema import TypeForm


def partial_value(annotation: object, data: object) -> TypeForm:
    """The data as far as it is there, with pydantic models where the type has them.

    Nothing is validated: the text is not complete. A model has the fields that were begun and no others, not
    even defaults. An enum appears once its text is that of a member. Other types stay JSON data.
    """
    if annotation is None or data is None:
        return data
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _partial_model(annotation, data)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return next((member for member in annotation if member.value == data), data)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is list and isinstance(data, list):
        return [partial_value(arguments[0], item) for item in data]
    if origin is dict and isinstance(data, dict):
        return {key: partial_value(arguments[1], item) for key, item in data.items()}
    if origin is Union or origin is types.UnionType:
        return _partial_union(arguments, data)
    return data


def _partial_model(model: type[BaseModel], data: object) -> TypeForm:
    if not isinstance(data, dict):
        return data
    names = {
        field.validation_alias or field.alias or name: name for name, field in model.model_fields.items()
    }
    fields: dict[str, Any] = {}
    for key, value in data.items():
        name = names.get(key)
        if name is not None:
            fields[name] = partial_value(model.model_fields[name].annotation, value)
    # Not model_construct: it would fill in the defaults of fields that may still come.
    made = model.__new__(model)
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_fields_set__", set(fields))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


def _partial_union(options: tuple[object, ...], data: object) -> TypeForm:
    """Of a union, the only member of the data's kind; with several, which one it becomes is not known yet."""
    fitting: list[object]
    if isinstance(data, dict):
        fitting = [option for option in options if isinstance(option, type) and issubclass(option, BaseModel)]
    else:
        fitting = [option for option in options if get_origin(option) is list]
    return partial_value(fitting[0], data) if len(fitting) == 1 else data
