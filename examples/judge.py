"""A judge that branches, solves and merges: one essay, several criteria at once, one verdict.

python examples/judge.py
"""

from __future__ import annotations

from dataclasses import dataclass

import sgrt

ESSAY = (
    "Cities should plant more trees. Trees give shade, so streets stay cooler in summer. They also hold water "
    "when it rains hard. They cost money, but the money comes back as lower bills for cooling."
)
CRITERIA = ["clarity", "evidence", "originality"]


@dataclass(frozen=True)
class Verdict:
    """A grade, and what was said about each criterion."""

    grade: str
    remarks: dict[str, str]


@sgrt.function
def judge(s: sgrt.State, essay: str) -> Verdict:
    """Grade an essay from A to D."""
    s.system("You judge essays fairly and briefly.")
    with s.user():
        s += f"Essay: {essay}\n\n"
        branches = s.fork(len(CRITERIA))
        s += "Judge the essay as a whole."
    branches += [f"In one sentence, how is its {criterion}?" for criterion in CRITERIA]
    branches += sgrt.assistant(sgrt.gen("remark", max_tokens=40, stop="\n"))
    remarks = dict(zip(CRITERIA, (text.strip() for text in branches.values("remark")), strict=True))

    s.assistant("\n".join(f"{criterion}: {remark}" for criterion, remark in remarks.items()))
    s.user("Your grade, A to D:")
    grade = sgrt.select("grade", ["A", "B", "C", "D"])
    s.assistant(grade)
    return Verdict(grade=s[grade], remarks=remarks)


def main(backend: sgrt.Backend) -> Verdict:
    """Judge the essay."""
    state = judge.on(backend).run(ESSAY)
    for criterion, remark in state.result.remarks.items():
        print(f"{criterion:12} {remark}")
    shares = state.meta("grade").probabilities
    print(f"grade        {state.result.grade}  ({', '.join(f'{g} {p:.0%}' for g, p in shares.items())})")
    return state.result


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
