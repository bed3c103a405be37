"""Triage of support tickets: one prompt, three branches at once, typed results, a batch with progress.

python examples/triage.py
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, Field

import sgrt

CATEGORIES = ["billing", "delivery", "technical", "other"]

REFERENCE = re.compile(r"[A-C]-[0-9]{5}")

TICKETS = [
    "My order A-10482 arrived with a broken screen. I want a replacement before Friday!",
    "I was charged twice for invoice B-20017. Please refund one of the payments.",
    "The app crashes whenever I open the settings page on my phone. Ticket C-31555.",
    "When will parcel A-99120 be delivered? The tracking page has not changed for a week.",
]


class Facts(BaseModel):
    """What a ticket says."""

    product: str = Field(max_length=24)
    mood: Literal["calm", "annoyed", "angry"]
    wants_refund: bool


@dataclass(frozen=True)
class Triage:
    """What the program returns for a ticket."""

    facts: Facts
    category: str
    confidence: float
    reference: str
    reply: str


@sgrt.function
def triage(s: sgrt.State, ticket: str) -> Triage:
    """Read a ticket in three branches that share everything up to it, then answer."""
    s.system("You triage support tickets for an online shop. You are brief and precise.")
    facts = sgrt.gen("facts", schema=Facts, max_tokens=64)
    category = sgrt.select("category", CATEGORIES)
    # What the ticket itself says is a choice among its words: no model can invent a number.
    reference = sgrt.gen("reference", choice=REFERENCE.findall(ticket))

    with s.user():
        s += f"Ticket: {ticket}\n\n"
        branches = s.fork(3)  # inside the turn: each branch ends it with its own question
    branches[0] += "State product, mood and whether a refund is wanted, as JSON." + sgrt.assistant(facts)
    branches[1] += f"Which one fits: {', '.join(CATEGORIES)}?" + sgrt.assistant(category)
    branches[2] += "Copy the reference." + sgrt.assistant(reference)

    chosen = branches[1][category]
    s.assistant(f"This is about: {chosen}.")
    s.user("Write one friendly sentence to the customer.")
    reply = sgrt.gen("reply", max_tokens=40, stop="\n")
    s.assistant(reply)
    return Triage(
        facts=branches[0][facts],
        category=chosen,
        confidence=branches[1].meta(category).probabilities[chosen],
        reference=branches[2][reference],
        reply=s[reply],
    )


def main(backend: sgrt.Backend) -> list[Triage]:
    """Triage all tickets and print the results and what they cost."""
    started = time.perf_counter()
    states = triage.on(backend).run_batch([{"ticket": ticket} for ticket in TICKETS])
    seconds = time.perf_counter() - started
    for ticket, state in zip(TICKETS, states, strict=True):
        result = state.result
        print(ticket)
        print(f"  category   {result.category} ({result.confidence:.0%})")
        print(f"  reference  {result.reference}")
        print(f"  facts      {result.facts!r}")
        print(f"  reply      {result.reply.strip()}")
    usage = sgrt.total_usage(states)
    print(
        f"{usage.output_tokens} tokens in {seconds:.1f} s ({usage.output_tokens / seconds:.0f} tokens/s); "
        f"{usage.cached_tokens} of {usage.prompt_tokens} prompt tokens "
        f"({usage.cached_tokens / max(1, usage.prompt_tokens):.0%}) came from the cache"
    )
    return [state.result for state in states]


if __name__ == "__main__":
    with sgrt.Engine("smollm2") as engine:
        main(engine)
