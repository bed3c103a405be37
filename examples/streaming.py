"""Streaming: text token by token, and an object whose fields appear as they are written.

python examples/streaming.py
"""

from __future__ import annotations

from pydantic import BaseModel, Field

import sgrt


class Recipe(BaseModel):
    """A recipe."""

    name: str = Field(max_length=30)
    ingredients: list[str] = Field(max_length=4)
    minutes: int = Field(ge=1, le=120)


@sgrt.function
def cook(s: sgrt.State, dish: str) -> Recipe:
    """A sentence about a dish, and its recipe."""
    s.user(f"Describe {dish} in one sentence.")
    s.assistant(sgrt.gen("sentence", max_tokens=40))
    s.user("Now the recipe as JSON.")
    recipe = sgrt.gen("recipe", schema=Recipe, max_tokens=120)
    s.assistant(recipe)
    return s[recipe]


def main(backend: sgrt.Backend) -> Recipe:
    """Show everything as it comes."""
    with cook.on(backend).stream("onion soup") as events:
        for event in events:
            if isinstance(event, sgrt.Delta) and event.variable == "sentence":
                print(event.text, end="", flush=True)
            elif isinstance(event, sgrt.Partial):
                recipe = event.value  # a Recipe with the fields begun so far
                if hasattr(recipe, "ingredients"):
                    print(f"\n  so far: {recipe.name}, {recipe.ingredients}", end="")
            elif isinstance(event, sgrt.Done):
                print()
    print(events.state.result)
    return events.state.result


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
