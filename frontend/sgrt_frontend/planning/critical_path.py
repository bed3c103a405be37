"""Which calls the end of a run waits for: for each call the time from its beginning to that end."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sgrt_frontend.planning.backend import PlannedCall
from sgrt_frontend.planning.cost import CostModel
from sgrt_frontend.planning.units import Units


def needs(calls: Sequence[PlannedCall], units: Units) -> dict[str, set[str]]:
    """For each call of an item the labels of those whose output stands in its prompt."""
    labels = {call.label for call in calls}
    return {
        call.label: {units[-token].producer for token in call.prompt if token < 0} & labels - {call.label}
        for call in calls
    }


def remaining_seconds(calls: Sequence[PlannedCall], units: Units) -> dict[str, float]:
    """By label: about how long it takes, once a call's prompt is there, until all that waits for it is done.

    Outputs are as long as they may be, and a pass costs what it does on a machine that nobody has measured: calls go
    out with what is known before they run. Powers of two: calls of about the same urgency keep their order, so that those with a common prefix stay
    together. Prompts count from the last generated text on; what stands before was computed already.
    """
    cost = CostModel()

    def size(tokens: tuple[int, ...]) -> int:
        return units.size(tokens).high

    urgency: dict[str, float] = {}
    waiting_for = needs(calls, units)
    behind: dict[str, float] = {}
    for call in reversed(calls):  # a call stands behind those whose output it needs
        new = next((place + 1 for place in reversed(range(len(call.prompt))) if call.prompt[place] < 0), 0)
        output = size(call.output)
        own = cost.seconds(passes=1 + output, output_tokens=output)
        total = own + behind.get(call.label, 0.0)
        urgency[call.label] = 2.0 ** round(math.log2(total)) if total > 0 else 0.0
        prompt = size(call.prompt[new:]) * cost.prompt_token_s
        for label in waiting_for[call.label]:
            behind[label] = max(behind.get(label, 0.0), prompt + total)
    return urgency
