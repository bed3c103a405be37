"""Conversations and constrained records."""

from __future__ import annotations

import sgrt
from program_workloads.workload import Prose, Scale, Workload

_STRING = r'"[A-Za-z0-9 ,.]{1,24}"'
CHARACTER = (
    r'\{"name": ' + _STRING + r', "house": "(?:Gryffindor|Slytherin|Ravenclaw|Hufflepuff)", '
    r'"blood status": "(?:Pure-blood|Half-blood|Muggle-born)", "occupation": "(?:student|teacher|auror|minister)", '
    r'"wand": \{"wood": ' + _STRING + r', "core": ' + _STRING + r', "length": [0-9]{1,2}\.[0-9]\}, '
    r'"alive": "(?:Alive|Deceased)", "patronus": ' + _STRING + r', "bogart": ' + _STRING + r"\}"
)
CITY = (
    r'\{"name": ' + _STRING + r', "country": ' + _STRING + r', "latitude": [0-9]{1,2}\.[0-9]{2}, '
    r'"population": [0-9]{1,8}, "top 3 landmarks": \[' + _STRING + ", " + _STRING + ", " + _STRING + r"\]\}"
)


@sgrt.function
def record(s: sgrt.State, document: str, pattern: str) -> None:
    """A record of a fixed form."""
    s += document
    s += sgrt.gen("record", regex=pattern, max_tokens=256)


def json_character(scale: Scale) -> Workload:
    """A short prompt and a long fixed form: 32 records."""
    prose = Prose(31)
    items = [
        {"document": f"{prose.text(8)} Fill in the record of this character as JSON.\n", "pattern": CHARACTER}
        for _ in range(scale.count(32))
    ]
    return Workload(name="JSON character", program=record, items=items)


def json_city(scale: Scale) -> Workload:
    """A long document and a fixed form: 32 records."""
    prose = Prose(32)
    items = [
        {"document": prose.text(1000) + " Give the city as JSON.\n", "pattern": CITY}
        for _ in range(scale.count(32))
    ]
    return Workload(name="JSON city", program=record, items=items)


@sgrt.function
def conversation(s: sgrt.State, turns: list[str], lengths: list[int]) -> None:
    """Turns that always use their whole length."""
    for number, (turn, length) in enumerate(zip(turns, lengths, strict=True)):
        s += turn
        s += sgrt.gen(f"answer_{number}", max_tokens=length, ignore_eos=True)


def _chats(name: str, low: int, high: int, scale: Scale, seed: int) -> Workload:
    prose = Prose(seed)
    items = [
        {
            "turns": [prose.text(prose.number(256, 512)) for _ in range(4)],
            "lengths": [scale.tokens(prose.number(low, high)) for _ in range(4)],
        }
        for _ in range(scale.count(20))
    ]
    return Workload(name=name, program=conversation, items=items)


def multi_turn_short(scale: Scale) -> Workload:
    """Four turns with answers of 4 to 8 tokens: 20 chats."""
    return _chats("multi-turn, short", 4, 8, scale, 33)


def multi_turn_long(scale: Scale) -> Workload:
    """Four turns with answers of 256 to 512 tokens: 20 chats."""
    return _chats("multi-turn, long", 256, 512, scale, 34)
