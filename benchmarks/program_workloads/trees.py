"""Trees of thought: branches of branches that share their history."""

from __future__ import annotations

import sgrt
from program_workloads.workload import Prose, Scale, Workload


@sgrt.function
def deep_tree(s: sgrt.State, template: str, question: str, max_tokens: int) -> None:
    """Propose, execute, reflect, conclude; two branches at every step."""
    s += template
    s += question
    states = [s]
    for step in ("Plan", "Solution", "Check", "Answer"):
        states = [fork for state in states for fork in state.fork(2)]
        for number, state in enumerate(states):
            state += f"\n{step} {number % 2}:" + sgrt.gen(
                step, max_tokens=max_tokens, stop="\n\n", temperature=0.1
            )


def tree_of_thought_deep(scale: Scale) -> Workload:
    """2 + 4 + 8 + 16 generations per question: 8 questions."""
    prose = Prose(21)
    template = prose.text(150) + "\n"
    items = [
        {"template": template, "question": prose.text(70), "max_tokens": scale.tokens(256)}
        for _ in range(scale.count(8))
    ]
    return Workload(name="tree of thought, deep", program=deep_tree, items=items)


@sgrt.function
def wide_tree(s: sgrt.State, question: str, max_tokens: int) -> None:
    """Three branches on three levels."""
    s += question
    states = [s]
    for level in range(3):
        states = [fork for state in states for fork in state.fork(3)]
        for number, state in enumerate(states):
            state += f"\nStep {level + 1}, idea {number % 3}:"
            state += sgrt.gen(f"step_{level}", max_tokens=max_tokens, stop="\n\n", temperature=0.3)


def tree_of_thought_wide(scale: Scale) -> Workload:
    """3 + 9 + 27 generations per question: 4 questions."""
    prose = Prose(22)
    items = [{"question": prose.text(120), "max_tokens": scale.tokens(128)} for _ in range(scale.count(4))]
    return Workload(name="tree of thought, wide", program=wide_tree, items=items)
