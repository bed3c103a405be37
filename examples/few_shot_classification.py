"""Few-shot classification: shared examples, calibrated probabilities, a batch.

python examples/few_shot_classification.py
"""

from __future__ import annotations

import sgrt

SHOTS = [
    ("The plot drags and the jokes fall flat.", "negative"),
    ("A warm, funny film with a great cast.", "positive"),
    ("I left after half an hour.", "negative"),
    ("I would watch it again tomorrow.", "positive"),
]
REVIEWS = ["A delight from start to end.", "Two hours of my life I want back.", "It has its moments."]
LABELS = ["positive", "negative"]


@sgrt.function
def classify(s: sgrt.State, review: str) -> dict[str, float]:
    """The probability of each label."""
    s += "".join(f"Review: {text}\nSentiment: {label}\n\n" for text, label in SHOTS)
    s += f"Review: {review}\nSentiment:"
    s += sgrt.select("label", [f" {label}" for label in LABELS], terminator="\n")
    return {label.strip(): share for label, share in s.meta("label").probabilities.items()}


def main(backend: sgrt.Backend) -> list[str]:
    """Classify the reviews; the examples before them are computed once."""
    states = classify.on(backend).map(REVIEWS)
    for review, state in zip(REVIEWS, states, strict=True):
        shares = ", ".join(f"{label} {share:.0%}" for label, share in state.result.items())
        print(f"{review:40} {shares}")
    return [max(state.result, key=state.result.__getitem__) for state in states]


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
