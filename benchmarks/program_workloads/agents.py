"""Agents: a tool loop replayed, a village of small functions, an outline that is expanded."""

from __future__ import annotations

import sgrt
from program_workloads.workload import Prose, Scale, Workload


@sgrt.function
def react_replay(s: sgrt.State, template: str, question: str, steps: list[str], max_tokens: int) -> None:
    """Each step is generated in a fork and thrown away; the recorded step is appended instead."""
    s += template
    s += f"Question: {question}\n"
    for number, recorded in enumerate(steps):
        fork = s.fork(1)[0]
        fork += f"Thought {number + 1}:" + sgrt.gen("step", max_tokens=max_tokens, stop="Observation")
        s += f"Thought {number + 1}: {recorded}\n"


def react(scale: Scale) -> Workload:
    """10 questions of 4 or 5 steps on a template of 1700 tokens."""
    prose = Prose(11)
    template = prose.text(1700) + "\n\n"
    items = [
        {
            "template": template,
            "question": prose.text(20),
            "steps": [
                f"{prose.text(35)}\nObservation {n + 1}: {prose.text(60)}" for n in range(4 + index % 2)
            ],
            "max_tokens": scale.tokens(200),
        }
        for index in range(scale.count(10))
    ]
    return Workload(name="ReAct replay", program=react_replay, items=items)


@sgrt.function
def village(s: sgrt.State, template: str, who: str, max_tokens: int, stop: str) -> None:
    """One small question about a villager."""
    s += template
    s += who
    s += sgrt.gen("reply", max_tokens=max_tokens, stop=stop or "\n\n")


def generative_agents(scale: Scale) -> Workload:
    """Five functions with templates of their own, 12 calls each, one after the other."""
    prose = Prose(12)
    functions = [(163, 2, ""), (20, 20, ")"), (316, 6, ""), (173, 10, "}"), (173, 5, "}")]
    templates = [prose.text(size) + "\n" for size, _, _ in functions]
    items = [
        {
            "template": templates[number % 5],
            "who": prose.text(60),
            "max_tokens": functions[number % 5][1],
            "stop": functions[number % 5][2],
        }
        for number in range(scale.count(60))
    ]
    return Workload(name="generative agents", program=village, items=items, concurrency=1)


@sgrt.function
def expand_tip(s: sgrt.State, template: str, tip: str, max_tokens: int) -> None:
    """A paragraph about a tip."""
    s += template
    s += f"Tip: {tip}\nParagraph:" + sgrt.gen("paragraph", max_tokens=max_tokens, stop="\n\n")


@sgrt.function
def suggest_tips(s: sgrt.State, template: str, topic: str, expand_template: str, max_tokens: int) -> None:
    """Five tips, each expanded by a nested program beside the others."""
    s += template
    s += f"Topic: {topic}\n"
    for number in range(5):
        s += f"{number + 1}." + sgrt.gen(f"tip_{number}", max_tokens=24, stop=[".", "\n"]) + "\n"
    children = [expand_tip(expand_template, s[f"tip_{number}"], max_tokens) for number in range(5)]
    s += "Here they are:\n" + "\n".join(child.value("paragraph", str) for child in children)
    s += "\nIn short:" + sgrt.gen("summary", max_tokens=max_tokens, stop="\n\n")


def skeleton(scale: Scale) -> Workload:
    """An outline of five points, expanded side by side: 16 topics."""
    prose = Prose(13)
    template, expand_template = prose.text(90) + "\n", prose.text(300) + "\n"
    items = [
        {
            "template": template,
            "topic": prose.text(8),
            "expand_template": expand_template,
            "max_tokens": scale.tokens(128),
        }
        for _ in range(scale.count(16))
    ]
    return Workload(name="skeleton of thought", program=suggest_tips, items=items)


@sgrt.function
def judge(s: sgrt.State, article: str, dimensions: list[str], max_tokens: int) -> None:
    """Branch by dimension, merge, give a score."""
    s += f"Article: {article}\n\n"
    forks = s.fork(len(dimensions))
    forks += [f"Judge its {dimension}:" for dimension in dimensions]
    forks += sgrt.gen("remark", max_tokens=max_tokens, stop="END")
    s += "\n".join(f"{d}: {remark}" for d, remark in zip(dimensions, forks.values("remark"), strict=True))
    s += "\nScore from 1 to 10:" + sgrt.gen("score", max_tokens=2)


def branch_solve_merge(scale: Scale) -> Workload:
    """Six dimensions per article: 8 articles."""
    prose = Prose(14)
    dimensions = ["clarity", "evidence", "style", "structure", "depth", "honesty"]
    items = [
        {"article": prose.text(700), "dimensions": dimensions, "max_tokens": scale.tokens(256)}
        for _ in range(scale.count(8))
    ]
    return Workload(name="LLM judge", program=judge, items=items)
