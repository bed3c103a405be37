"""A chat of several turns. Every turn goes on from the tokens of the last one.

python examples/chat.py
"""

from __future__ import annotations

import sgrt

QUESTIONS = ["Name a river in France.", "Which city lies on it?", "Say goodbye in French."]


@sgrt.function
def chat(s: sgrt.State, questions: list[str]) -> list[str]:
    """Ask the questions one after the other."""
    s.system("You answer in one short sentence.")
    answers = []
    for number, question in enumerate(questions):
        answer = sgrt.gen(f"answer_{number}", max_tokens=40)
        s.user(question)
        s.assistant(answer)
        answers.append(answer)
    return [s[answer] for answer in answers]


def main(backend: sgrt.Backend) -> list[str]:
    """Run the chat and show how much of each prompt came from the cache."""
    state = chat.on(backend).run(QUESTIONS)
    for number, (question, answer) in enumerate(zip(QUESTIONS, state.result, strict=True)):
        usage = state.meta(f"answer_{number}").usage
        print(f"you    {question}")
        print(
            f"model  {answer.strip()}   ({usage.cached_tokens} of {usage.prompt_tokens} prompt tokens cached)"
        )
    return state.result


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
