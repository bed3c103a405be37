"""Batch evaluation: a small exam, many questions at once, accuracy and errors in the end.

python examples/batch_evaluation.py
"""

from __future__ import annotations

import sgrt

EXAM = [
    ("What is the capital of Italy?", ["Rome", "Madrid", "Oslo", "Bern"], "Rome"),
    ("Which animal barks?", ["cat", "dog", "hen", "cow"], "dog"),
    ("What is 3 + 4?", ["6", "7", "8", "9"], "7"),
    ("Which is a color?", ["run", "blue", "seven", "fast"], "blue"),
]


@sgrt.function
def answer(s: sgrt.State, question: str, options: list[str]) -> str:
    """Pick an option."""
    s.system("You answer multiple-choice questions. You write the right option and nothing else.")
    s.user(f"{question}\nOptions: {', '.join(options)}")
    choice = sgrt.select("choice", options)
    s.assistant(choice)
    return s[choice]


def main(backend: sgrt.Backend) -> float:
    """Run the exam; a question that fails counts as wrong and stops nothing."""
    states = answer.on(backend).run_batch(
        [{"question": question, "options": options} for question, options, _ in EXAM],
        concurrency=16,
        raise_errors=False,
    )
    right = 0
    for (question, _, truth), state in zip(EXAM, states, strict=True):
        given = f"failed: {state.error}" if state.error else state.result
        right += given == truth
        print(f"{'+' if given == truth else '-'} {question:32} {given}")
    print(
        f"{right / len(EXAM):.0%} right, {sgrt.total_usage(states).cached_tokens} prompt tokens from the cache"
    )
    return right / len(EXAM)


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
