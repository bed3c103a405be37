"""A JSON file of a model folder, read with the errors its reader owes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from sgrt.errors import CorruptModel


class JsonFile:
    """The object in a JSON file; every look-up says what it expects."""

    __slots__ = ("path", "values")

    def __init__(self, path: Path, values: Mapping[str, object]) -> None:
        self.path = path
        self.values = values

    @classmethod
    def read(cls, path: Path) -> JsonFile:
        """Read `path`.

        Raises:
            CorruptModel: the file is no JSON, or not an object.
        """
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise CorruptModel(f"{path}: not JSON: {error}") from error
        if not isinstance(values, dict):
            raise CorruptModel(f"{path}: expected a JSON object")
        return cls(path, values)

    @classmethod
    def read_if_there(cls, path: Path) -> JsonFile:
        """Read `path`, or an empty object where there is no such file."""
        return cls.read(path) if path.is_file() else cls(path, {})

    def part(self, key: str) -> JsonFile:
        """An inner object; empty when it is missing or null."""
        value = self.values.get(key) or {}
        if not isinstance(value, dict):
            raise self._bad(key, "an object", value)
        return JsonFile(self.path, value)

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number.

        Raises:
            CorruptModel: it is missing (and has no default) or is something else.
        """
        value = self._value(key, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self._bad(key, "a whole number", value)

    def real(self, key: str, default: float | None = None) -> float:
        """A number; errors as for `integer`."""
        value = self._value(key, default)
        if isinstance(value, int | float):
            return float(value)
        raise self._bad(key, "a number", value)

    def optional_real(self, key: str) -> float | None:
        """A number, or None when it is missing or null."""
        return None if self.values.get(key) is None else self.real(key)

    def string(self, key: str, default: str | None = None) -> str:
        """A text; errors as for `integer`."""
        value = self._value(key, default)
        if isinstance(value, str):
            return value
        raise self._bad(key, "a text", value)

    def flag(self, key: str, default: bool) -> bool:
        """A yes or no."""
        value = self._value(key, default)
        if isinstance(value, bool):
            return value
        raise self._bad(key, "true or false", value)

    def items(self, key: str) -> list[object]:
        """A list; a lone value is a list of one, null or nothing is an empty one."""
        value = self.values.get(key)
        if value is None:
            return []
        return value if isinstance(value, list) else [value]

    def _value(self, key: str, default: object) -> object:
        value = self.values.get(key)
        return default if value is None else value

    def _bad(self, key: str, expected: str, value: object) -> CorruptModel:
        found = "is missing" if value is None else f"is {value!r:.80}"
        return CorruptModel(f"{self.path}: {key!r} {found}, expected {expected}")
