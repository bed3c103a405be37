"""Retrying: draw one value again until it is accepted, or go back to a checkpoint. The cache keeps the rest.

python examples/retry_with_checkpoint.py
"""

from __future__ import annotations

import sgrt


@sgrt.function
def even(s: sgrt.State) -> int:
    """An even number: the one generation is drawn again, inside the chain, without blocking anything."""
    s.user("Say an even number below 100.")
    number = sgrt.gen("number", int, temperature=1.0).until(lambda value: value % 2 == 0, attempts=10)
    s.assistant(number)
    return s[number]


@sgrt.function
def haiku(s: sgrt.State, attempts: int = 5) -> str:
    """Three lines: several appended things are undone together."""
    s.user("Write a poem of three short lines.")
    start = s.checkpoint()
    for _ in range(attempts):
        s.assistant(sgrt.gen("poem", max_tokens=48, temperature=0.9))
        poem = s.value("poem", str).strip()
        if poem.count("\n") == 2:
            return poem
        s.rollback(start)
    return "(no poem of three lines)"


def main(backend: sgrt.Backend) -> tuple[int, str]:
    """Run both."""
    number = even.on(backend).with_options(seed=3).run()
    print(f"{number.result} after {number.meta('number').attempts} attempts")
    poem = haiku.on(backend).with_options(seed=3).run().result
    print(poem)
    return number.result, poem


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
