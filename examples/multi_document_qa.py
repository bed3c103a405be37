"""Questions over several documents: each is read in a branch of its own, the findings are merged.

python examples/multi_document_qa.py
"""

from __future__ import annotations

import sgrt

DOCUMENTS = [
    "The museum opens at nine and closes at five. On Mondays it is closed.",
    "Tickets cost twelve euros. Children under ten enter free.",
    "The café on the ground floor serves soup, bread and cake.",
]
QUESTIONS = ["What does a ticket cost?", "When does the museum close?"]


@sgrt.function
def answer(s: sgrt.State, documents: list[str], question: str) -> str:
    """Look for the answer in every document, then give it in one sentence."""
    s.system("You answer from documents only. If a document does not help, you write: nothing.")
    readers = s.fork(len(documents))
    readers += [sgrt.user(f"Document: {text}\n\nQuestion: {question}") for text in documents]
    readers += sgrt.assistant(sgrt.gen("finding", max_tokens=32, stop="\n"))
    findings = [text.strip() for text in readers.values("finding")]

    s.user("Findings:\n" + "\n".join(f"- {text}" for text in findings) + f"\n\nQuestion: {question}")
    s.assistant(sgrt.gen("answer", max_tokens=32, stop="\n"))
    return s.value("answer", str).strip()


def main(backend: sgrt.Backend) -> list[str]:
    """Ask two questions about the same documents."""
    states = answer.on(backend).bind(documents=DOCUMENTS).run_batch([{"question": q} for q in QUESTIONS])
    for question, state in zip(QUESTIONS, states, strict=True):
        print(f"{question}  {state.result}")
    return [state.result for state in states]


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
