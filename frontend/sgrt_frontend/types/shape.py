"""What a type asks of generated text, and how the text becomes a value of that type."""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin

from pydantic import ValidationError

from sgrt_frontend.errors import InvalidRequest
from sgrt_frontend.types.json_schema import adapter_of, schema_of, schema_text
from sgrt_grammars.constraint import Choice, Constraint, JsonSchema, Regex

T = TypeVar("T")


class ValueMismatch(ValueError):
    """Generated text has the right shape but a validator of the type refuses the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape(Generic[T]):
    """The text of values of type T. `annotation` is the type as it was written (a mapping for a JSON Schema).

    `after` are characters of which one may follow the value: the constraint lets it pass, but it is no part
    of the value, the shown text or the state. `is_json` says that text is JSON, so that partial
    values can be read while it streams.
    """

    name: str
    annotation: object
    constraint: Constraint | None
    parse: Callable[[str], T]
    after: str = ""
    is_json: bool = False

    def visible(self, text: str) -> str:
        """The text without the character that may follow the value. Such a character never stands in a value."""
        cut = next((place for place, one in enumerate(text) if place and one in self.after), len(text))
        return text[:cut]


# A number in running text ends where a model goes on with something else. Were only the end token
# allowed after it, a model that would rather write " years" is pushed into further digits. So one of
# these characters may follow, and is cut off.
_AFTER_NUMBER = " \t\n,;:!?)]}\"'/%"
_AFTER_INTEGER = _AFTER_NUMBER + "."


def _then(ends: str) -> str:
    return "[" + "".join("\\" + end if end in "]^\\-" else end for end in ends) + "]?"


_INTEGER = r" ?-?(?:0|[1-9][0-9]{0,17})" + _then(_AFTER_INTEGER)
_NUMBER = r" ?-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?" + _then(_AFTER_NUMBER)

STRING: Shape[str] = Shape(name="str", annotation=str, constraint=None, parse=str)


def shape_of(annotation: object) -> Shape[Any]:
    """The shape of a Python type, or of a JSON Schema given as a mapping.

    Bare `int`, `float` and `bool` are number and truth text, bare `str` is free text, enums and
    literals of strings are a choice; everything else is compact JSON.

    Raises:
        InvalidRequest: the type has no text form.
    """
    if annotation is str:
        return STRING
    if annotation is bool:
        return Shape(
            name="bool",
            annotation=bool,
            constraint=Regex(pattern=" ?(?:true|false)"),
            parse=lambda text: text.strip() == "true",
        )
    if annotation is int:
        return Shape(
            name="int",
            annotation=int,
            constraint=Regex(pattern=_INTEGER),
            parse=_integer,
            after=_AFTER_INTEGER,
        )
    if annotation is float:
        return Shape(
            name="float",
            annotation=float,
            constraint=Regex(pattern=_NUMBER),
            parse=_number,
            after=_AFTER_NUMBER,
        )
    if isinstance(annotation, Mapping):
        return _schema_shape(annotation)
    return _choice_shape(annotation) or _typed_shape(annotation)


def json_shape(annotation: object) -> Shape[Any]:
    """The shape of a type written as JSON, scalars included: what `schema=` asks for."""
    if isinstance(annotation, Mapping):
        return _schema_shape(annotation)
    return _typed_shape(annotation)


def text_shape(constraint: Constraint) -> Shape[str]:
    """The shape of plain text under a constraint."""
    return Shape(name="str", annotation=str, constraint=constraint, parse=str)


def _integer(text: str) -> int:
    return int(text.strip())


def _number(text: str) -> float:
    return float(text.strip())


def _choice_shape(annotation: object) -> Shape[Any] | None:
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        members = {_member_text(member): member for member in annotation}
        return _choice(annotation.__name__, annotation, members)
    if get_origin(annotation) is Literal:
        options = get_args(annotation)
        if all(isinstance(option, str) and option for option in options):
            return _choice(str(annotation), annotation, {option: option for option in options})
    return None


def _member_text(member: enum.Enum) -> str:
    value = member.value
    return value if isinstance(value, str) and value else json.dumps(value, default=lambda _: member.name)


def _choice(name: str, annotation: object, members: Mapping[str, object]) -> Shape[Any]:
    return Shape(
        name=name, annotation=annotation, constraint=Choice(options=tuple(members)), parse=members.__getitem__
    )


def _typed_shape(annotation: object) -> Shape[Any]:
    if isinstance(annotation, Hashable):
        try:
            return _kept_typed_shape(annotation)
        except TypeError:  # hashable in name alone: Annotated with an unhashable part
            pass
    return _new_typed_shape(annotation)


@functools.lru_cache(maxsize=256)
def _kept_typed_shape(annotation: object) -> Shape[Any]:
    return _new_typed_shape(annotation)


def _new_typed_shape(annotation: object) -> Shape[Any]:
    adapter = adapter_of(annotation)
    name = getattr(annotation, "__name__", str(annotation))

    def parse(text: str) -> object:
        try:
            value: object = adapter.validate_json(text)
        except ValidationError as error:
            raise ValueMismatch(f"{text!r} is not a valid {name}: {error}") from error
        return value

    constraint = JsonSchema(text=schema_text(schema_of(adapter)))
    return Shape(name=name, annotation=annotation, constraint=constraint, parse=parse, is_json=True)


def _schema_shape(schema: Mapping[str, object]) -> Shape[Any]:
    text = schema_text(dict(schema))

    def parse(text: str) -> object:
        try:
            value: object = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueMismatch(f"{text!r} is not JSON: {error}") from error
        return value

    return Shape(name="json", annotation=schema, constraint=JsonSchema(text=text), parse=parse, is_json=True)


def require_type(annotation: object) -> None:
    """Refuse what is plainly not a type.

    Raises:
        InvalidRequest: a string or number was passed where a type belongs.
    """
    if isinstance(annotation, str | int | float | list | tuple):
        raise InvalidRequest(
            f"type: {annotation!r} is a value, not a type; pass a type such as int, or use choice=, regex=",
            param="type",
        )
