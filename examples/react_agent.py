"""An agent with tools: it thinks, calls a typed Python function, sees the result, and answers.

python examples/react_agent.py
"""

from __future__ import annotations

from typing import Literal

import sgrt

POPULATION = {"Paris": 2_103_000, "Rome": 2_746_000, "Oslo": 717_000}


def population(city: Literal["Paris", "Rome", "Oslo"]) -> int:
    """How many people live in a city."""
    return POPULATION[city]


def calculate(left: int, operator: Literal["+", "-", "*"], right: int) -> int:
    """Add, subtract or multiply two integers."""
    return {"+": left + right, "-": left - right, "*": left * right}[operator]


def main(backend: sgrt.Backend) -> sgrt.Answered:
    """Ask a question that needs both tools."""
    state = sgrt.react.on(backend).run(
        "How many more people live in Rome than in Oslo?", tools=[population, calculate]
    )
    for step in state.result.steps:
        print(f"thought  {step.thought}")
        print(f"{step.tool:8} {step.observation}")
    print(f"answer   {state.result.answer}")
    return state.result


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        try:
            main(engine)
        except sgrt.OutOfSteps as error:
            print(f"This small model did not finish: {error}")
