"""Backslash escapes of both dialects: a character, or a class of characters."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from sgrt_grammars.constraint import RegexDialect
from sgrt_grammars.regex import classes
from sgrt_grammars.regex.charset import CharSet
from sgrt_grammars.regex.errors import PatternError, PatternRefused

_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")
_OCTAL_DIGITS = frozenset("01234567")
_CONTROLS = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Escape:
    """What an escape denotes, and the index just after it."""

    value: str | CharSet
    end: int


class EscapeReader:
    """Reads escapes of one pattern."""

    def __init__(self, text: str, dialect: RegexDialect) -> None:
        self._text = text
        self._is_python = dialect is RegexDialect.PYTHON

    def read(self, start: int, *, in_class: bool, ascii_only: bool) -> Escape:
        """The escape whose backslash stands at `start`."""
        letter = self._text[start + 1 : start + 2]
        after = start + 2
        if not letter:
            raise PatternError("bad escape (end of pattern)", start)
        if letter.lower() in ("d", "w", "s"):
            return Escape(self._shorthand(letter, ascii_only), after)
        if letter in _CONTROLS:
            return Escape(_CONTROLS[letter], after)
        if letter == "b" and in_class:
            return Escape("\b", after)
        if letter.isascii() and letter.isdigit():
            return self._number(start, in_class=in_class)
        if letter == "x":
            return self._hexadecimal(after, 2)
        if letter == "u":
            return self._unicode(after)
        if self._is_python:
            return self._python_only(letter, after)
        return self._ecma_only(letter, after)

    def _shorthand(self, letter: str, ascii_only: bool) -> CharSet:
        kind = letter.lower()
        if self._is_python and not ascii_only:
            members = classes.python_class(kind)
        else:
            space = classes.ASCII_SPACE if self._is_python else classes.ECMA_SPACE
            members = {"d": classes.ASCII_DIGITS, "w": classes.ASCII_WORD, "s": space}[kind]
        return ~members if letter.isupper() else members

    def _number(self, start: int, *, in_class: bool) -> Escape:
        """A null, an octal escape (Python) or a backreference, which is refused."""
        place = start + 1
        digits = self._text[place : place + 3]
        if not self._is_python:
            if digits[:1] == "0" and not digits[1:2].isdigit():
                return Escape("\0", place + 1)
            if in_class or digits[0] == "0":
                raise PatternError("bad escape (a digit)", start)
            raise PatternRefused("backreferences are not regular", hint="spell out the alternatives")
        if digits[0] == "0":
            length = 1
            while length < 3 and digits[length : length + 1] in _OCTAL_DIGITS and digits[length : length + 1]:
                length += 1
            return Escape(chr(int(digits[:length], 8)), place + length)
        if len(digits) == 3 and all(digit in _OCTAL_DIGITS for digit in digits):
            if int(digits, 8) > 0o377:
                raise PatternError("octal escape value outside of range 0-0o377", start)
            return Escape(chr(int(digits, 8)), place + 3)
        if in_class:
            raise PatternError("bad escape (a digit)", start)
        raise PatternRefused("backreferences are not regular", hint="spell out the alternatives")

    def _hexadecimal(self, place: int, length: int) -> Escape:
        return Escape(self._character(self._digits(place, length), place), place + length)

    def _digits(self, place: int, length: int) -> int:
        digits = self._text[place : place + length]
        if len(digits) < length or not all(digit in _HEX_DIGITS for digit in digits):
            raise PatternError("incomplete escape", place - 2)
        return int(digits, 16)

    def _character(self, code: int, place: int) -> str:
        if code > 0x10FFFF:
            raise PatternError("bad escape (beyond U+10FFFF)", place - 2)
        if 0xD800 <= code < 0xE000:
            raise PatternRefused("a surrogate is not a character", hint="write the character it is half of")
        return chr(code)

    def _unicode(self, place: int) -> Escape:
        if not self._is_python and self._text[place : place + 1] == "{":
            stop = self._text.find("}", place)
            digits = self._text[place + 1 : stop]
            if stop < 0 or not digits or not all(digit in _HEX_DIGITS for digit in digits):
                raise PatternError("incomplete escape", place - 2)
            return Escape(self._character(int(digits, 16), place), stop + 1)
        code = self._digits(place, 4)
        follows = self._text[place + 4 : place + 6] == "\\u" and not self._is_python
        if 0xD800 <= code < 0xDC00 and follows:
            low = self._digits(place + 6, 4)
            if 0xDC00 <= low < 0xE000:
                return Escape(chr(0x10000 + ((code - 0xD800) << 10) + low - 0xDC00), place + 10)
        return Escape(self._character(code, place), place + 4)

    def _python_only(self, letter: str, after: int) -> Escape:
        if letter == "a":
            return Escape("\a", after)
        if letter == "U":
            return self._hexadecimal(after, 8)
        if letter == "N":
            stop = self._text.find("}", after)
            name = self._text[after + 1 : stop]
            if self._text[after : after + 1] != "{" or stop < 0 or not name:
                raise PatternError("missing character name", after)
            try:
                return Escape(unicodedata.lookup(name), stop + 1)
            except KeyError:
                raise PatternError(f"undefined character name {name!r}", after) from None
        if letter.isascii() and letter.isalpha():
            raise PatternError(f"bad escape \\{letter}", after - 2)
        return Escape(letter, after)

    def _ecma_only(self, letter: str, after: int) -> Escape:
        if letter in ("p", "P"):
            return self._property(letter, after)
        if letter == "c":
            control = self._text[after : after + 1]
            if not (control.isascii() and control.isalpha()):
                raise PatternError("bad escape \\c", after - 2)
            return Escape(chr(ord(control) % 32), after + 1)
        if letter == "k":
            raise PatternRefused("backreferences are not regular", hint="spell out the alternatives")
        if letter.isalpha():
            raise PatternError(f"bad escape \\{letter}", after - 2)
        return Escape(letter, after)

    def _property(self, letter: str, after: int) -> Escape:
        stop = self._text.find("}", after)
        inner = self._text[after + 1 : stop]
        if self._text[after : after + 1] != "{" or stop < 0 or not inner:
            raise PatternError("bad property escape", after - 2)
        name, equals, value = inner.partition("=")
        members = classes.unicode_property(name, value if equals else None)
        if members is None:
            raise PatternRefused(
                f"the Unicode property {inner!r} is not known here",
                hint="use a general category or a class of ranges",
            )
        return Escape(~members if letter == "P" else members, stop + 1)
