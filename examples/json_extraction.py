"""JSON extraction: a pydantic model in, instances of it out. The text always fits the model.

python examples/json_extraction.py
"""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, Field

import sgrt

TEXT = (
    "Dear Sir, please send 3 blue lamps and 1 green chair to Mrs Ada Byron, 12 Hill Road, London. "
    "It is urgent. The total should be 240.50 pounds."
)


class Color(Enum):
    """The colors we sell."""

    BLUE = "blue"
    GREEN = "green"
    RED = "red"


class Item(BaseModel):
    """A line of an order."""

    article: str = Field(max_length=20)
    color: Color
    count: int = Field(ge=1, le=99)


class Order(BaseModel):
    """An order."""

    customer: str = Field(max_length=30)
    items: list[Item] = Field(min_length=1, max_length=4)
    total: float | None
    is_urgent: bool


@sgrt.function
def extract(s: sgrt.State, text: str) -> Order:
    """Read an order from a letter."""
    s.system("You turn letters into orders.")
    s.user(text + "\n\nGive the order as JSON.")
    order = sgrt.gen("order", schema=Order, max_tokens=160)
    s.assistant(order)
    return s[order]


def main(backend: sgrt.Backend) -> Order:
    """Extract and use typed fields."""
    order = extract.on(backend).run(TEXT).result
    print(order)
    print(sum(item.count for item in order.items), "pieces")
    return order


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
