"""A typed pipeline: each step's value has the type that was asked for, and the type checker knows it.

python examples/typed_pipeline.py
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import sgrt


class Unit(Enum):
    """What a length is measured in."""

    METER = "meter"
    FOOT = "foot"


@dataclass
class Size:
    """A length and a width."""

    length: int
    width: int


METERS = {Unit.METER: 1.0, Unit.FOOT: 0.3048}


@sgrt.function
def area(s: sgrt.State, note: str) -> float:
    """The area of a room in square meters, from a note."""
    s.user(f"Note: {note}\n\nWhich unit does the note use: meter or foot?")
    with s.assistant():
        unit: Unit = s.gen(Unit)
    s.user("Length and width as JSON.")
    with s.assistant():
        size: Size = s.gen(Size, max_tokens=40)
    s.user("How many such rooms are there? Answer with a number.")
    with s.assistant():
        rooms: int = s.gen(int)
    return rooms * size.length * size.width * METERS[unit] ** 2


def main(backend: sgrt.Backend) -> float:
    """Compute with the values."""
    square_meters = area.on(backend).run("Two rooms, each 12 by 10 feet.").result
    print(f"{square_meters:.1f} square meters")
    return square_meters


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
