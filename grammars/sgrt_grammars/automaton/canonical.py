"""Canonical bytes of a JSON value: equal exactly when the values are equal (1 and 1.0, key order)."""

from __future__ import annotations

import re

_NUMBER = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?")
_ESCAPES = {
    ord('"'): b'"', ord("\\"): b"\\", ord("/"): b"/", ord("b"): b"\b",
    ord("f"): b"\f", ord("n"): b"\n", ord("r"): b"\r", ord("t"): b"\t",
}  # fmt: skip
_SPACE = b" \t\n\r"


def canonical_json(text: bytes) -> bytes:
    """Canonical bytes of the JSON text; text that is no JSON stands for itself."""
    try:
        return _parse(text)
    except (ValueError, IndexError):
        return b"?" + text


class _Container:
    """An open array or object: finished entries, and the key that waits for its value."""

    __slots__ = ("entries", "is_object", "key")

    def __init__(self, *, is_object: bool) -> None:
        self.is_object = is_object
        self.entries: list[bytes] = []
        self.key: bytes | None = None

    def add(self, value: bytes) -> None:
        if self.is_object and self.key is None:
            self.key = value
            return
        self.entries.append(_sized(self.key or b"") + _sized(value) if self.is_object else _sized(value))
        self.key = None

    def close(self) -> bytes:
        entries = sorted(self.entries) if self.is_object else self.entries
        return (b"{" if self.is_object else b"[") + b"".join(entries)


def _sized(value: bytes) -> bytes:
    return b"%d:%b" % (len(value), value)


def _parse(text: bytes) -> bytes:
    stack = [_Container(is_object=False)]
    position = 0
    while position < len(text):
        byte = text[position]
        if byte in _SPACE or byte in b",:":
            position += 1
        elif byte in b"{[":
            stack.append(_Container(is_object=byte == ord("{")))
            position += 1
        elif byte in b"}]":
            value = stack.pop().close()
            stack[-1].add(value)
            position += 1
        elif byte == ord('"'):
            value, position = _string(text, position + 1)
            stack[-1].add(b'"' + value)
        else:
            value, position = _scalar(text, position)
            stack[-1].add(value)
    if len(stack) != 1 or len(stack[0].entries) != 1:
        raise ValueError("not one JSON value")
    return stack[0].entries[0]


def _scalar(text: bytes, position: int) -> tuple[bytes, int]:
    for word in (b"true", b"false", b"null"):
        if text.startswith(word, position):
            return word, position + len(word)
    match = _NUMBER.match(text, position)
    if match is None:
        raise ValueError("no JSON value")
    sign, whole, fraction, exponent = match.groups()
    digits = (whole + (fraction or b"")).lstrip(b"0")
    scale = int(exponent or b"0") - len(fraction or b"")
    stripped = digits.rstrip(b"0")
    if not stripped:
        return b"0", match.end()
    return b"%b%be%d" % (sign, stripped, scale + len(digits) - len(stripped)), match.end()


def _string(text: bytes, position: int) -> tuple[bytes, int]:
    """The characters of a string as UTF-8 (lone surrogates as their three bytes), and where it ends."""
    result = bytearray()
    high = 0  # a high surrogate that waits for its low half
    while True:
        byte = text[position]
        if byte == ord("\\") and text[position + 1] == ord("u"):
            unit = int(text[position + 2 : position + 6], 16)
            position += 6
            if high and 0xDC00 <= unit < 0xE000:
                result += chr(0x10000 + ((high - 0xD800) << 10) + (unit - 0xDC00)).encode()
                high = 0
                continue
            result += _lone(high)
            high = unit if 0xD800 <= unit < 0xDC00 else 0
            result += b"" if high else chr(unit).encode("utf-8", "surrogatepass")
            continue
        result += _lone(high)
        high = 0
        if byte == ord('"'):
            return bytes(result), position + 1
        if byte == ord("\\"):
            result += _ESCAPES.get(text[position + 1], text[position + 1 : position + 2])
            position += 2
        else:
            result.append(byte)
            position += 1


def _lone(surrogate: int) -> bytes:
    return chr(surrogate).encode("utf-8", "surrogatepass") if surrogate else b""
