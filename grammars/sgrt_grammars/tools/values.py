"""From the text of arguments to JSON values: by schema, from Python literals, from bare objects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_DEPTH = 64
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NAME = re.compile(r"[^\W\d]\w*")
_WORDS: dict[str, Json] = {
    "True": True,
    "False": False,
    "None": None,
    "true": True,
    "false": False,
    "null": None,
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "a": "\a", "\n": ""}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}
_CODE_POINTS = 0x110000


class Malformed(ValueError):
    """The text is no value of this notation."""


def json_object(text: str) -> dict[str, Json]:
    """The JSON object that `text` is; a string that holds one counts, and null is the empty one.

    Raises:
        Malformed: it is something else.
    """
    value = _loads(text)
    if isinstance(value, str):
        value = _loads(value)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Malformed("arguments are no object")
    return value


def typed(text: str, schema: object) -> Json:
    """The value that bare `text` stands for where `schema` is expected.

    A schema that allows strings alone takes the text as it is; every other reads JSON (or Python's words
    for it) first and falls back to the text.
    """
    types = _types(schema)
    if types == {"string"}:
        return text
    stripped = text.strip()
    if stripped in _WORDS:
        word = _WORDS[stripped]
        return word if not types or _type_name(word) in types else text
    try:
        value = _loads(stripped)
    except Malformed:
        return _literal_or_text(text, types)
    if types and not _fits(value, types):
        return text if "string" in types else value
    return value


def python_arguments(text: str) -> dict[str, Json]:
    """The keyword arguments in `text`, parentheses included.

    Raises:
        Malformed: it is no list of keyword arguments with literal values.
    """
    reader = _LiteralReader(text, quotes=("'", '"'), bare_keys=False)
    return reader.keywords()


def bare_object(text: str, quote: str) -> dict[str, Json]:
    """The object in `text`, whose keys are bare and whose strings stand between `quote` marks.

    Raises:
        Malformed: it is no such object.
    """
    reader = _LiteralReader(text, quotes=(quote,), bare_keys=True)
    value = reader.whole()
    if not isinstance(value, dict):
        raise Malformed("arguments are no object")
    return value


def _loads(text: str) -> Json:
    try:
        value: Json = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Malformed(str(error)) from None
    return value


def _refuse_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _literal_or_text(text: str, types: set[str]) -> Json:
    if "string" not in types and text.lstrip()[:1] in ("{", "["):
        try:
            return _LiteralReader(text.strip(), quotes=("'", '"'), bare_keys=False).whole()
        except Malformed:
            return text
    return text


def _types(schema: object, depth: int = 8) -> set[str]:
    """The JSON types a schema allows as far as it says so plainly; empty means any."""
    if not isinstance(schema, Mapping) or depth == 0:
        return set()
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return {item for item in kind if isinstance(item, str)}
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            found = [_types(option, depth - 1) for option in options]
            return set().union(*found) if all(found) else set()
    values = schema.get("enum")
    if "const" in schema:
        return {_type_name(schema["const"])}
    return {_type_name(value) for value in values} if isinstance(values, list) else set()


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names[type(value)]


def _fits(value: Json, types: set[str]) -> bool:
    name = _type_name(value)
    return name in types or (name == "integer" and "number" in types)


class _LiteralReader:
    """Reads Python or bare notation from a text that is complete. Nesting is bounded."""

    def __init__(self, text: str, *, quotes: tuple[str, ...], bare_keys: bool) -> None:
        self._text = text
        self._at = 0
        self._quotes = quotes
        self._bare_keys = bare_keys

    def whole(self) -> Json:
        """The one value the text is."""
        value = self._value(_DEPTH)
        self._spaces()
        if self._at != len(self._text):
            raise Malformed(f"unexpected text at {self._at}")
        return value

    def keywords(self) -> dict[str, Json]:
        """`(name=value, ...)` as an object."""
        self._expect("(")
        found: dict[str, Json] = {}
        while not self._skip(")"):
            match = _NAME.match(self._text, self._at)
            if match is None:
                raise Malformed(f"a name is expected at {self._at}")
            self._at = match.end()
            self._expect("=")
            found[match.group()] = self._value(_DEPTH)
            if not self._skip(","):
                self._expect(")")
                break
        return found

    def _value(self, depth: int) -> Json:
        if depth == 0:
            raise Malformed(f"nested deeper than {_DEPTH} levels")
        self._spaces()
        quote = next((quote for quote in self._quotes if self._text.startswith(quote, self._at)), None)
        if quote is not None:
            return self._string(quote)
        if self._skip("{"):
            return self._object(depth)
        if self._skip("["):
            return self._items(depth, "]")
        if self._skip("("):
            return self._items(depth, ")")
        return self._scalar()

    def _object(self, depth: int) -> dict[str, Json]:
        found: dict[str, Json] = {}
        while not self._skip("}"):
            key = self._key()
            self._expect(":")
            found[key] = self._value(depth - 1)
            if not self._skip(","):
                self._expect("}")
                break
        return found

    def _items(self, depth: int, end: str) -> list[Json]:
        items: list[Json] = []
        while not self._skip(end):
            items.append(self._value(depth - 1))
            if not self._skip(","):
                self._expect(end)
                break
        return items

    def _key(self) -> str:
        self._spaces()
        for quote in self._quotes:
            if self._text.startswith(quote, self._at):
                return self._string(quote)
        end = self._text.find(":", self._at)
        if not self._bare_keys or end < 0:
            raise Malformed(f"a key is expected at {self._at}")
        key, self._at = self._text[self._at : end].strip(), end
        return key

    def _scalar(self) -> Json:
        match = _NUMBER.match(self._text, self._at)
        if match is not None and match.end() > self._at:
            self._at = match.end()
            return _loads(match.group())
        name = _NAME.match(self._text, self._at)
        if name is not None and name.group() in _WORDS:
            self._at = name.end()
            return _WORDS[name.group()]
        raise Malformed(f"a value is expected at {self._at}")

    def _string(self, quote: str) -> str:
        self._at += len(quote)
        if len(quote) > 1:  # a mark: nothing inside is escaped
            end = self._text.find(quote, self._at)
            if end < 0:
                raise Malformed("a string does not end")
            text, self._at = self._text[self._at : end], end + len(quote)
            return text
        pieces: list[str] = []
        plain = re.compile(rf"[^{quote}\\]*")
        while True:
            match = plain.match(self._text, self._at)
            assert match is not None, "the pattern matches the empty text"
            pieces.append(match.group())
            self._at = match.end()
            if self._at >= len(self._text):
                raise Malformed("a string does not end")
            if self._text[self._at] == quote:
                self._at += 1
                return _joined_surrogates("".join(pieces))
            pieces.append(self._escape())

    def _escape(self) -> str:
        kind = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        if kind in _HEX_DIGITS:
            digits = self._text[self._at : self._at + _HEX_DIGITS[kind]]
            if len(digits) == _HEX_DIGITS[kind] and all(
                digit in "0123456789abcdefABCDEF" for digit in digits
            ):
                self._at += len(digits)
                code = int(digits, 16)
                return chr(code) if code < _CODE_POINTS else "\ufffd"
            return "\\" + kind
        if kind in ("'", '"', "\\", "/"):
            return kind
        return _ESCAPES.get(kind, "\\" + kind)

    def _spaces(self) -> None:
        while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
            self._at += 1

    def _skip(self, mark: str) -> bool:
        self._spaces()
        if not self._text.startswith(mark, self._at):
            return False
        self._at += len(mark)
        return True

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            raise Malformed(f"{mark!r} is expected at {self._at}")


def _joined_surrogates(text: str) -> str:
    """Two halves of a surrogate pair as one character; a lone half as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


ReadObject = Callable[[str], dict[str, Json]]
