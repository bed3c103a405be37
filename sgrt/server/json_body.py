"""Strict reading of request bodies: whatever arrives becomes a JSON object or a 400.

The reader is pydantic's: it refuses NaN, half surrogate pairs and text that is no UTF-8, reads eight megabytes in
0.1 s and less, and does not recurse on the machine's stack. It holds the interpreter's lock meanwhile, so bodies that
would make it build millions of objects are counted and refused first, with passes of `bytes.count` that take a
millisecond; only where these could be wrong (brackets inside texts) is a body scanned piece by piece. What the reader
takes and nobody can use (deep nesting, thousands of digits, infinities) is refused by a walk over what it made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator

from pydantic_core import from_json

from sgrt.server.errors import bad_request

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]

DEPTH = 200  # the reader's own limit
_DIGITS = 400  # longer integers are no count of anything
_BITS = math.ceil(_DIGITS * math.log2(10))
_CONTAINERS = 16_384  # objects and arrays: thousands of messages with parts, tools with schemas
_MEMBERS = 32_768  # names in objects
_VALUES = 524_288  # what stands between commas: tokens of many prompts
# A string, or a mark outside of strings. Possessive: one pass, no backtracking into strings.
_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{:,]', re.DOTALL)
_LIMITS = (
    (b"[{", _CONTAINERS, "objects and lists"),
    (b":", _MEMBERS, "names in its objects"),
    (b",", _VALUES, "values"),
)


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
    """The JSON value in `raw`, under the same rules as `parse_object`. `max_depth` is at most `DEPTH`."""
    _check_counts(raw)
    try:
        value: JsonValue = from_json(raw, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise bad_request(f"the body is not JSON: {error}") from None
    _check_values(value, max_depth)
    return value


def _check_counts(raw: bytes) -> None:
    """Refuse what the reader would need long for. The scan goes by pieces, so that others run meanwhile."""
    if all(sum(raw.count(mark) for mark in _single(marks)) <= limit for marks, limit, _ in _LIMITS):
        return
    counts = dict.fromkeys(_LIMITS, 0)
    kinds = {mark: kind for kind in _LIMITS for mark in _single(kind[0])}
    for match in _TOKEN.finditer(raw):
        kind = kinds.get(match.group()[:1])
        if kind is None:
            continue
        counts[kind] += 1
        if counts[kind] > kind[1]:
            raise bad_request(f"the body has more than {kind[1]} {kind[2]}")


def _single(marks: bytes) -> Iterable[bytes]:
    return (bytes((mark,)) for mark in marks)


def _check_values(value: JsonValue, max_depth: int) -> None:
    """Refuse nesting below `max_depth` and numbers out of range, level by level."""
    level: list[JsonValue] = [value]
    for _ in range(max_depth + 1):
        level = list(_below(level))
        if not level:
            return
    raise bad_request(f"the body is nested deeper than {max_depth} levels")


def _below(level: Iterable[JsonValue]) -> Iterator[JsonValue]:
    """What the containers of a level hold; its numbers are checked."""
    for item in level:
        if isinstance(item, dict):
            yield from item.values()
        elif isinstance(item, list):
            yield from item
        elif isinstance(item, int):
            _check_integer(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise bad_request("the body holds a number that is out of range")


def _check_integer(value: int) -> None:
    if value.bit_length() > _BITS:
        raise bad_request(f"the body holds a number with more than {_DIGITS} digits")
