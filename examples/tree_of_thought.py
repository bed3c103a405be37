"""Tree of thought: propose, rate, keep the best, go on. Branches are forks that share their history.

python examples/tree_of_thought.py
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import sgrt

QUESTION = "A farmer has 17 sheep. All but 9 run away. How many are left?"


@dataclass(frozen=True)
class Solution:
    """The path that was kept, and the answer at its end."""

    thoughts: list[str]
    answer: int


async def rate(branch: sgrt.State) -> int:
    """How promising a branch is, from 1 to 5; asked in a copy, so the branch itself is not changed."""
    judge = branch.copy()
    judge.user("Rate this step from 1 (wrong) to 5 (right). Answer with the digit.")
    score = sgrt.select("score", ["1", "2", "3", "4", "5"])
    judge.assistant(score)
    return int(await judge.get(score))


@sgrt.function
async def solve(s: sgrt.State, question: str, depth: int = 2, width: int = 3) -> Solution:
    """Search `depth` steps deep, `width` proposals each, keeping the best one."""
    s.system("You solve riddles step by step. Each step is one short sentence.")
    s.user(question)
    thoughts = []
    best = s
    for step in range(depth):
        branches = list(best.fork(width))
        thought = sgrt.gen("thought", max_tokens=40, stop="\n", temperature=0.8)
        for branch in branches:
            branch.assistant(f"Step {step + 1}: " + thought)
        scores = await asyncio.gather(*(rate(branch) for branch in branches))
        best = branches[scores.index(max(scores))]
        thoughts.append((await best.get(thought)).strip())
        best.user("Go on." if step + 1 < depth else "Now give the answer as a number.")
    answer = sgrt.gen("answer", int)
    best.assistant(answer)
    return Solution(thoughts=thoughts, answer=await best.get(answer))


def main(backend: sgrt.Backend) -> Solution:
    """Solve the riddle."""
    state = solve.on(backend).with_options(seed=1).run(QUESTION)
    for thought in state.result.thoughts:
        print(f"- {thought}")
    print(f"answer: {state.result.answer}")
    return state.result


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
