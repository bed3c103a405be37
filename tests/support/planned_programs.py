"""Programs whose plans are looked at: turns of a chat, branches that join, and a branch on a choice."""

from __future__ import annotations

from sgrt_frontend.gen import gen
from sgrt_frontend.program import function
from sgrt_frontend.select import select
from sgrt_frontend.state import State


@function
def chat(s: State, turns: int = 3) -> None:
    s.system("You are brief and kind.")
    for number in range(turns):
        s.user(f"Question {number}: what is next?")
        s.assistant(gen(f"a{number}", max_tokens=5, ignore_eos=True))


@function
def branches(s: State, topic: str = "trees") -> None:
    s += f"An essay about {topic} in several parts, each of them short and clear.\n"
    forks = s.fork(4)
    forks += lambda index: f"Part {index}: "
    forks += gen("part", max_tokens=5, ignore_eos=True)
    forks.join()
    s += "All parts: " + "; ".join(s.value("part", list)) + "\nSummary: "
    s += gen("summary", max_tokens=5, ignore_eos=True)


@function
def chosen(s: State) -> str:
    s += "Is it late?" + select("late", ["yes", "no"])
    if s["late"] == "yes":
        s += " Then go to bed." + gen("end", max_tokens=5, ignore_eos=True)
    else:
        s += " Stay." + gen("one", max_tokens=5, ignore_eos=True) + gen("two", max_tokens=5, ignore_eos=True)
    return s.text()
