"""Prompts with many shared examples: multiple choice by one token, by selection, retrieval, and one prefix for all."""

from __future__ import annotations

import sgrt
from program_workloads.workload import Prose, Scale, Workload


@sgrt.function
def one_token(s: sgrt.State, shots: str, question: str) -> None:
    """Few-shot multiple choice, answered by one token."""
    s += shots
    s += question + "\nAnswer:"
    s += sgrt.gen("answer", max_tokens=1)


def mmlu(scale: Scale) -> Workload:
    """5-shot multiple choice: 5 subjects of 20 questions."""
    prose = Prose(1)
    subjects = ["".join(f"{prose.text(140)}\nAnswer: B\n\n" for _ in range(5)) for _ in range(5)]
    items = [
        {"shots": subjects[number % 5], "question": prose.text(prose.number(60, 140))}
        for number in range(scale.count(100))
    ]
    return Workload(name="MMLU 5-shot", program=one_token, items=items)


@sgrt.function
def ending(s: sgrt.State, shots: str, question: str, endings: list[str]) -> None:
    """Few-shot choice of an ending."""
    s += shots
    s += question
    s += sgrt.select("ending", endings, all_spellings=False)


def hellaswag(scale: Scale) -> Workload:
    """20-shot choice among 4 endings: 25 questions."""
    prose = Prose(2)
    shots = "".join(f"{prose.text(85)}\n\n" for _ in range(20))
    items = [
        {
            "shots": shots,
            "question": prose.text(50),
            "endings": [f" {number} {prose.text(8)}" for number in range(4)],
        }
        for _ in range(scale.count(25))
    ]
    return Workload(name="HellaSwag 20-shot", program=ending, items=items)


@sgrt.function
def retrieve(s: sgrt.State, demos: str, passages: str, question: str, max_tokens: int) -> None:
    """Answer from passages."""
    s += demos
    s += passages
    s += question + "\nAnswer:"
    s += sgrt.gen("answer", max_tokens=max_tokens, stop="\n")


def rag(scale: Scale) -> Workload:
    """Shared instructions and demonstrations, three passages and a question: 32 questions."""
    prose = Prose(3)
    demos = prose.text(900)
    items = [
        {
            "demos": demos,
            "passages": "\n".join(prose.text(95) for _ in range(3)),
            "question": prose.text(30),
            "max_tokens": scale.tokens(64),
        }
        for _ in range(scale.count(32))
    ]
    return Workload(name="DSPy RAG", program=retrieve, items=items)


def in_batch(scale: Scale) -> Workload:
    """10 prefixes of 1024 tokens, 32 questions each, all sent at once."""
    prose = Prose(4)
    prefixes = [prose.text(1024) + "\n" for _ in range(scale.count(10))]
    items = [
        {"shots": prefix, "question": prose.text(128)} for prefix in prefixes for _ in range(scale.count(32))
    ]
    return Workload(name="in-batch prefix", program=one_token, items=items, concurrency=len(items))
