"""Strict reading of request bodies: whatever arrives becomes a JSON object or a 400.

Python's own reader takes NaN, turns 1e999 into infinity, overflows its stack on deep nesting and passes
lone surrogates on to where they cannot be written; all of these are refused here, in linear time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable

from sgrt.server.errors import ApiError, bad_request

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

_DIGITS = 400  # longer integers are no count of anything
_CONTAINERS = 32_768  # objects and arrays: thousands of messages with parts, tools with schemas
_VALUES = 1_000_000  # what stands between commas: tokens of many prompts
# Possessive quantifiers: one pass, no backtracking into strings.
_STRUCTURE = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_STRINGS = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
# Numbers that may be too long or too large; nothing else needs a look of its own.
_LONG_NUMBER = re.compile(r"[0-9]{300}|[0-9][eE]\+?[0-9]{3}")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_object(raw: bytes, *, max_depth: int) -> dict[str, JsonValue]:
    """The JSON object in `raw`.

    Raises:
        ApiError: status 400; the text is not JSON, not an object, or holds what cannot be kept.
    """
    value = parse_value(raw, max_depth=max_depth)
    if not isinstance(value, dict):
        raise bad_request("the body must be a JSON object")
    return value


def parse_value(raw: bytes, *, max_depth: int) -> JsonValue:
    """The JSON value in `raw`, under the same rules as `parse_object`."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_request(f"the body is not UTF-8 (byte {error.start})") from None
    _check_depth(text, max_depth)
    _check_count(text)
    readers: dict[str, Callable[[str], object]] = {"parse_constant": _no_constant}
    if _LONG_NUMBER.search(text):
        readers |= {"parse_int": _integer, "parse_float": _finite}
    try:
        value: JsonValue = json.loads(text, **readers)  # type: ignore[arg-type]  # readers by name
    except json.JSONDecodeError as error:
        raise bad_request(f"the body is not JSON: {error.msg} (character {error.pos})") from None
    if _SURROGATE.search(text):
        _check_surrogates(value)
    return value


def _check_depth(text: str, max_depth: int) -> None:
    """Refuse deep nesting and too many containers. Most bodies have few brackets, and are not scanned at all."""
    if text.count("[") + text.count("{") <= max_depth:
        return
    depth = count = 0
    for match in _STRUCTURE.finditer(text):
        first = match.group()[0]
        if first in "[{":
            depth += 1
            count += 1
            if count > _CONTAINERS:
                raise bad_request(f"the body has more than {_CONTAINERS} objects and lists")
            if depth > max_depth:
                raise bad_request(f"the body is nested deeper than {max_depth} levels")
        elif first in "]}":
            depth -= 1


def _check_count(text: str) -> None:
    if text.count(",") > _VALUES and _STRINGS.sub("", text).count(",") > _VALUES:
        raise bad_request(f"the body has more than {_VALUES} values")


def _check_surrogates(value: JsonValue) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise bad_request("the body holds half of a surrogate pair, which is no character") from None


def _integer(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise bad_request(f"a number has {len(digits)} digits; at most {_DIGITS} are taken")
    return int(digits)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise bad_request(f"the number {text[:40]} is out of range")
    return value


def _no_constant(name: str) -> float:
    raise bad_request(f"{name} is not JSON")


__all__ = ["ApiError", "JsonValue", "parse_object", "parse_value"]
