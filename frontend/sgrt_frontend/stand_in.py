"""The text that stands, while a program is planned, for text that a model would write."""

from __future__ import annotations

import re

# Private-use characters around a number: no text of a program has them, and they survive formatting.
OPEN, _CLOSE = "\U000f5a60", "\U000f5a61"
MARKER = re.compile(f"{OPEN}(\\d+){_CLOSE}")


def marker(number: int) -> str:
    """The text that stands for unknown text number `number`."""
    return f"{OPEN}{number}{_CLOSE}"


ESCAPED = repr(OPEN)[1:-1]
"""How `repr` writes what a stand-in begins with."""
_ANY_MARKER = re.compile(f"(?:{OPEN}|{re.escape(ESCAPED)})(\\d+)")


def mentions_stand_in(text: str) -> bool:
    """Whether a text, an error message perhaps, holds unknown text, as it is or escaped by repr."""
    return OPEN in text or ESCAPED in text


def stand_ins_in(text: str) -> frozenset[int]:
    """The numbers of the unknown texts that a text holds, as they are or escaped by repr."""
    return frozenset(map(int, _ANY_MARKER.findall(text)))
