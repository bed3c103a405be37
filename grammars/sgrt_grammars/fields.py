"""Checks of a constraint's fields, where it is made: what is of the wrong type would else act as some other value."""

from __future__ import annotations

from enum import Enum
from types import UnionType

from sgrt_grammars.errors import InvalidConstraint

_TOO_LARGE = 2**31


def require_text(owner: object, name: str, *, hint: str = "") -> None:
    """Refuse a field that is not text, or that UTF-8 cannot write. Raises `InvalidConstraint`."""
    value: object = getattr(owner, name)
    if not isinstance(value, str):
        raise _wrong(owner, name, f"text is needed, not {_shown(value)}", hint)
    _require_characters(owner, name, value)


def take_texts(owner: object, name: str) -> None:
    """Have a field be a tuple of texts. Raises `InvalidConstraint`."""
    for value in _take_items(owner, name, "texts"):
        if not isinstance(value, str):
            raise _wrong(owner, name, f"texts are needed, not {_shown(value)}")
        _require_characters(owner, name, value)


def take_constraints(owner: object, name: str, kind: type | UnionType) -> None:
    """Have a field be a tuple of constraints of a kind. Raises `InvalidConstraint`."""
    for value in _take_items(owner, name, "constraints"):
        if not isinstance(value, kind):
            raise _wrong(owner, name, f"{_kind(kind)}s are needed, not {_shown(value)}")


def require_constraint(owner: object, name: str, kind: type | UnionType) -> None:
    """Refuse a field that is no constraint. Raises `InvalidConstraint`."""
    value: object = getattr(owner, name)
    if not isinstance(value, kind):
        hint = "Text(...) is literal text" if isinstance(value, str) else ""
        raise _wrong(owner, name, f"a {_kind(kind)} is needed, not {_shown(value)}", hint)


def require_count(owner: object, name: str) -> None:
    """Refuse a field that is not a whole number from 0 on, below 2**31. Raises `InvalidConstraint`."""
    value: object = getattr(owner, name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _TOO_LARGE:
        raise _wrong(owner, name, f"a whole number in [0, 2**31) is needed, not {_shown(value)}")


def require_flag(owner: object, name: str) -> None:
    """Refuse a field that is neither True nor False. Raises `InvalidConstraint`."""
    value: object = getattr(owner, name)
    if not isinstance(value, bool):
        raise _wrong(owner, name, f"True or False is needed, not {_shown(value)}")


def take_member(owner: object, name: str, kind: type[Enum]) -> None:
    """Have a field be a member of an enum, which may be given as its value. Raises `InvalidConstraint`."""
    value: object = getattr(owner, name)
    if isinstance(value, kind):
        return
    try:
        object.__setattr__(owner, name, kind(value))
    except ValueError:
        values = ", ".join(repr(member.value) for member in kind)
        raise _wrong(owner, name, f"{_shown(value)} is not one of {values}") from None


def _take_items(owner: object, name: str, what: str) -> tuple[object, ...]:
    values: object = getattr(owner, name)
    if not isinstance(values, tuple | list):
        raise _wrong(owner, name, f"a tuple of {what} is needed, not {_shown(values)}")
    items = tuple(values)
    object.__setattr__(owner, name, items)
    return items


def _require_characters(owner: object, name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise _wrong(
            owner, name, f"{half!r} at {error.start} is half of a character, which no text of UTF-8 can hold"
        ) from None


def _wrong(owner: object, name: str, message: str, hint: str = "") -> InvalidConstraint:
    advice = f"; {hint}" if hint else ""
    return InvalidConstraint(f"{message}{advice}", pointer=f"{type(owner).__name__}.{name}")


def _kind(kind: type | UnionType) -> str:
    return "constraint" if isinstance(kind, UnionType) else kind.__name__


def _shown(value: object) -> str:
    return f"{value!r:.80}"
