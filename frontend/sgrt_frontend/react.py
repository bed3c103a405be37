"""A reasoning-and-acting loop as a library program: thought, tool call, observation, until it finishes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sgrt_frontend.errors import SgrtError
from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.state import State
from sgrt_frontend.tools import Toolbox, ToolFunction

INSTRUCTIONS = (
    "Answer the question with the help of tools. Each turn, write one line of thought and then one tool call as "
    "JSON. Call finish with the answer as soon as you know it. Tools:\n"
)


class OutOfSteps(SgrtError):
    """The loop ended without an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn of the loop."""

    thought: str
    tool: str
    observation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The answer, and the steps that led to it."""

    answer: str
    steps: tuple[Step, ...]


def finish(answer: str) -> str:
    """Give the final answer."""
    return answer


@function
async def react(
    s: State,
    question: str,
    tools: Sequence[ToolFunction],
    max_steps: int = 6,
    max_tokens: int = 128,
) -> Answered:
    """Answer a question with tools.

    Every turn goes on from the tokens of the last one, so a step computes its own tokens only.

    Raises:
        OutOfSteps: `max_steps` turns brought no answer.
    """
    box = Toolbox([*tools, finish])
    s.system(INSTRUCTIONS + box.describe())
    s.user(question)
    steps: list[Step] = []
    for number in range(max_steps):
        thought = gen(f"thought_{number}", max_tokens=max_tokens, stop="\n")
        call = box.gen(f"call_{number}", max_tokens=max_tokens)
        s.assistant("Thought: " + thought + "\n" + call)
        called = await s.get(call)
        observation = await box.run(called)
        steps.append(Step(thought=(await s.get(thought)).strip(), tool=called.name, observation=observation))
        if called.name == finish.__name__:
            return Answered(answer=observation, steps=tuple(steps))
        s.user(f"Observation: {observation}")
    raise OutOfSteps(f"no answer after {max_steps} steps; raise max_steps or look at the steps: {steps}")
