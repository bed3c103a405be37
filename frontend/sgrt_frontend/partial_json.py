"""An incremental JSON parser: the value of a text that is still growing.

What it has given stays: strings only get longer, lists and objects only get more members, and a number or
literal appears once it is complete. Keys appear with their first value. No recursion: nesting lies on
a list.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum, auto


class InvalidJson(ValueError):
    """The text so far cannot become JSON; `position` is where it went wrong."""

    def __init__(self, message: str, *, position: int) -> None:
        super().__init__(f"{message} at character {position}")
        self.position = position


class _Expect(Enum):
    VALUE = auto()
    FIRST_VALUE_OR_END = auto()
    FIRST_KEY_OR_END = auto()
    KEY = auto()
    COLON = auto()
    COMMA_OR_END = auto()
    NOTHING = auto()


@dataclass(slots=True)
class _Container:
    """An open list or object, in which `place` (an index or key) holds the value being read."""

    value: list[object] | dict[str, object]
    key: str = ""
    place: int | str = 0

    def put(self, value: object) -> None:
        if isinstance(self.value, list):
            self.place = len(self.value)
            self.value.append(value)
        else:
            self.place = self.key
            self.value[self.key] = value

    def replace(self, value: object) -> None:
        self.value[self.place] = value  # type: ignore[index]  # place fits the container


_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS = {"true": True, "false": False, "null": None}
_SPACE = " \t\n\r"
_WORD = frozenset("+-.0123456789abcdefghijklmnopqrstuvwxyzEINaty")


@dataclass(slots=True)
class PartialJson:
    """Feed text; read `value`. `is_complete` says that the value is closed (a bare number: after `close`)."""

    _value: object = None
    _has_value: bool = False
    _expect: _Expect = _Expect.VALUE
    _open: list[_Container] = field(default_factory=list)
    _string: list[str] | None = None
    _is_key: bool = False
    _escape: str = ""
    _high: str = ""
    _word: str = ""
    _position: int = 0
    _changed: bool = False

    @property
    def value(self) -> object:
        """The value so far; None while there is nothing yet. Snapshots share no mutable parts with later ones."""
        return _copied(self._value)

    @property
    def has_value(self) -> bool:
        """Whether there is a value, which may be null."""
        return self._has_value

    @property
    def is_complete(self) -> bool:
        """Whether the outermost value is closed."""
        return self._expect is _Expect.NOTHING

    def feed(self, text: str) -> bool:
        """Read more text; whether the value changed.

        Raises:
            InvalidJson: no JSON text begins like this.
        """
        self._changed = False
        for character in text:
            if self._string is not None:
                self._in_string(character)
            elif not (self._word and self._in_word(character)) and character not in _SPACE:
                self._structural(character)
            self._position += 1
        if self._string is not None and not self._is_key:
            self._show_string()
        return self._changed

    def close(self) -> object:
        """The text has ended: the whole value.

        Raises:
            InvalidJson: the value is not complete.
        """
        if self._word:
            self._end_word()
        if not self.is_complete:
            raise self._error("the text ends too early")
        return self._value

    def _error(self, message: str) -> InvalidJson:
        return InvalidJson(message, position=self._position)

    # A string grows in place: it is put into its container when it opens and replaced as it grows.

    def _in_string(self, character: str) -> None:
        assert self._string is not None
        if self._escape:
            self._in_escape(character)
        elif character == "\\":
            self._escape = "\\"
        elif character == '"':
            self._end_string()
        elif character < " ":
            raise self._error("a control character stands in a string")
        else:
            self._take(character)

    def _in_escape(self, character: str) -> None:
        self._escape += character
        if self._escape[1] != "u":
            if character not in _ESCAPES:
                raise self._error(f"\\{character} is not an escape")
            self._escape = ""
            self._take(_ESCAPES[character])
        elif len(self._escape) > 2 and character not in "0123456789abcdefABCDEF":
            raise self._error("\\u needs four hexadecimal digits")
        elif len(self._escape) == 6:
            code = int(self._escape[2:], 16)
            self._escape = ""
            self._take_unit(code)

    def _take_unit(self, code: int) -> None:
        """One UTF-16 unit; a high surrogate waits for its low half."""
        assert self._string is not None
        if self._high and 0xDC00 <= code <= 0xDFFF:
            high, self._high = ord(self._high), ""
            self._string.append(chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)))
            return
        self._flush_high()
        if 0xD800 <= code <= 0xDBFF:
            self._high = chr(code)
        else:
            self._string.append(chr(code))

    def _take(self, character: str) -> None:
        assert self._string is not None
        self._flush_high()
        self._string.append(character)

    def _flush_high(self) -> None:
        assert self._string is not None
        if self._high:
            self._string.append(self._high)
            self._high = ""

    def _begin_string(self, *, is_key: bool) -> None:
        self._string = []
        self._is_key = is_key
        if not is_key:
            self._put("")

    def _show_string(self) -> None:
        assert self._string is not None
        shown = "".join(self._string)
        current = self._open[-1].value[self._open[-1].place] if self._open else self._value  # type: ignore[index]  # place fits the container
        if shown != current:
            self._changed = True
            if self._open:
                self._open[-1].replace(shown)
            else:
                self._value = shown

    def _end_string(self) -> None:
        assert self._string is not None
        self._flush_high()
        if self._is_key:
            self._open[-1].key = "".join(self._string)
            self._expect = _Expect.COLON
        else:
            self._show_string()
            self._after_value()
        self._string = None

    # Numbers and literals appear when they are complete: 1 might still become 12.

    def _in_word(self, character: str) -> bool:
        if character in _WORD:
            self._word += character
            if self._word in _LITERALS:
                self._end_word()
            return True
        self._end_word()
        return False

    def _end_word(self) -> None:
        word, self._word = self._word, ""
        if word in _LITERALS:
            self._put(_LITERALS[word])
        else:
            try:
                number = json.loads(word)
            except json.JSONDecodeError:
                raise self._error(f"{word!r} is neither a number nor a literal") from None
            if not isinstance(number, int | float) or number != number or abs(number) == float("inf"):
                raise self._error(f"{word!r} is not a number")
            self._put(number)
        self._after_value()

    def _structural(self, character: str) -> None:
        expect = self._expect
        if expect in (_Expect.VALUE, _Expect.FIRST_VALUE_OR_END):
            if character == "]" and expect is _Expect.FIRST_VALUE_OR_END:
                self._end_container()
            else:
                self._begin_value(character)
        elif expect in (_Expect.KEY, _Expect.FIRST_KEY_OR_END):
            self._key_or_end(character)
        elif expect is _Expect.COLON and character == ":":
            self._expect = _Expect.VALUE
        elif expect is _Expect.COMMA_OR_END:
            self._comma_or_end(character)
        else:
            raise self._error(f"{character!r} is out of place")

    def _key_or_end(self, character: str) -> None:
        if character == '"':
            self._begin_string(is_key=True)
        elif character == "}" and self._expect is _Expect.FIRST_KEY_OR_END:
            self._end_container()
        else:
            raise self._error(f"{character!r} stands where a key belongs")

    def _comma_or_end(self, character: str) -> None:
        is_list = isinstance(self._open[-1].value, list)
        if character == ",":
            self._expect = _Expect.VALUE if is_list else _Expect.KEY
        elif character == ("]" if is_list else "}"):
            self._end_container()
        else:
            raise self._error(f"{character!r} is out of place")

    def _begin_value(self, character: str) -> None:
        if character == '"':
            self._begin_string(is_key=False)
        elif character in "[{":
            value: list[object] | dict[str, object] = [] if character == "[" else {}
            self._put(value)
            self._open.append(_Container(value))
            self._expect = _Expect.FIRST_VALUE_OR_END if character == "[" else _Expect.FIRST_KEY_OR_END
        elif character in "-0123456789tfn":
            self._word = character
        else:
            raise self._error(f"{character!r} begins no value")

    def _put(self, value: object) -> None:
        self._changed = True
        self._has_value = True
        if self._open:
            self._open[-1].put(value)
        else:
            self._value = value

    def _end_container(self) -> None:
        self._open.pop()
        self._after_value()

    def _after_value(self) -> None:
        self._expect = _Expect.COMMA_OR_END if self._open else _Expect.NOTHING


def _copied(value: object) -> object:
    """A copy of nested lists and objects, without recursion."""
    if not isinstance(value, list | dict):
        return value
    root: list[object] | dict[str, object] = value.copy()
    waiting: list[list[object] | dict[str, object]] = [root]
    while waiting:
        container = waiting.pop()
        items = list(container.items()) if isinstance(container, dict) else list(enumerate(container))
        for place, item in items:
            if isinstance(item, list | dict):
                copy = item.copy()
                container[place] = copy  # type: ignore[index]  # place fits the container
                waiting.append(copy)
    return root
