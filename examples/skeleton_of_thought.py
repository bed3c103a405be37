"""Skeleton of thought: an outline first, then every point expanded at the same time by a nested program.

python examples/skeleton_of_thought.py
"""

from __future__ import annotations

import sgrt


@sgrt.function
def expand(s: sgrt.State, topic: str, point: str) -> None:
    """Write one paragraph about a point."""
    s.system("You write one clear paragraph of two sentences.")
    s.user(f"Topic: {topic}\nPoint: {point}")
    s.assistant(sgrt.gen("paragraph", max_tokens=60, stop="\n\n"))


@sgrt.function
def write(s: sgrt.State, topic: str, points: int = 3) -> str:
    """An article with one paragraph per point."""
    s.system("You make outlines: short points, one per line.")
    s.user(f"Give {points} tips about {topic}.")
    with s.assistant():
        for number in range(points):
            s += f"{number + 1}." + sgrt.gen(f"point_{number}", max_tokens=16, stop="\n") + "\n"
    outline = [s.value(f"point_{number}", str).strip() for number in range(points)]
    children = [expand(topic, point) for point in outline]  # all of them run at once
    return "\n\n".join(
        f"{point}\n{child.value('paragraph', str).strip()}"
        for point, child in zip(outline, children, strict=True)
    )


def main(backend: sgrt.Backend) -> str:
    """Write about sleep."""
    article = write.on(backend).run("sleeping well").result
    print(article)
    return article


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
