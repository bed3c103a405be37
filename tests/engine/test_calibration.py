"""What forward passes cost is told from loads that weigh the parts of a pass differently."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scripted_engine import saying, scripted_engine

from sgrt.engine.calibration import _LOADS, Load, Observation, counted, fitted, measure_cost
from sgrt_frontend.planning.cost import CostModel

RATES = CostModel(
    pass_s=4e-3,
    prompt_token_s=4e-4,
    output_token_s=5e-4,
    prompt_context_s=6e-7,
    output_context_s=5e-7,
    context_read_s=1e-6,
)


def observed(load: Load, rates: CostModel = RATES) -> Observation:
    """A load on a machine that costs exactly what `rates` say."""
    passes = load.drawn + (load.count * load.added - 1) // 512
    made = counted(load, passes=passes, step_tokens=512, seconds=1.0)
    seconds = rates.seconds(
        passes=made.passes,
        prompt_tokens=made.prompt_tokens,
        output_tokens=made.output_tokens,
        prompt_context=made.prompt_context,
        output_context=made.output_context,
        context_read=made.context_read,
    )
    return replace(made, seconds=seconds)


def by_hand(load: Load) -> tuple[int, int, int, int, int]:
    """Token by token: prompt and output tokens, what they attend to, and what is read."""
    prompts = outputs = prompt_context = output_context = read = 0
    for _ in range(load.count):
        for place in range(load.cached, load.prompt):
            if load.added > 1:
                prompts, prompt_context = prompts + 1, prompt_context + place + 1
        if load.added > 1:
            read += load.prompt
    first = load.prompt - (load.added == 1)
    for place in range(first, load.prompt + load.drawn - 1):
        outputs += load.count
        output_context += load.count * (place + 1)
        own = place + 1 - (load.cached if load.shared else 0)
        read += load.count * own + (place + 1 - own)
    return prompts, outputs, prompt_context, output_context, read


@pytest.mark.parametrize(
    "load",
    [
        Load(added=16),
        Load(added=40, drawn=5, count=3),
        Load(cached=64, drawn=6),
        Load(cached=64, drawn=6, count=4),
        Load(cached=64, drawn=6, count=4, shared=True),
        Load(cached=64, added=9, drawn=3, count=4, shared=True),
    ],
)
def test_what_a_load_computes_and_reads_is_counted_token_by_token(load: Load) -> None:
    made = counted(load, passes=1, step_tokens=512, seconds=1.0)
    assert made.counts[1:] == by_hand(load)


def test_exact_times_give_the_rates() -> None:
    assert astuple(fitted(list(map(observed, _LOADS)))) == pytest.approx(astuple(RATES), rel=1e-6)


@pytest.mark.parametrize("name", [name for name in CostModel.__dataclass_fields__ if name != "pass_s"])
def test_a_rate_of_nothing_is_found(name: str) -> None:
    rates = replace(RATES, **{name: 0.0})
    made = fitted([observed(load, rates) for load in _LOADS])
    assert astuple(made) == pytest.approx(astuple(rates), rel=1e-6, abs=1e-12)


def test_noise_never_makes_a_rate_negative_and_no_other_rates_are_closer() -> None:
    random = np.random.default_rng(1)
    found = [replace(made, seconds=made.seconds * random.uniform(0.7, 1.3)) for made in map(observed, _LOADS)]
    rates = np.array(astuple(fitted(found)))
    counts = np.array([made.counts for made in found], float) / [[made.seconds] for made in found]

    def error(tried: NDArray[np.float64]) -> float:
        return float(np.square(counts @ tried - 1).sum())

    assert (rates >= 0).all() and rates[0] > 0
    for place, step in enumerate(np.array(astuple(RATES)) * 1e-3):
        for tried in (rates[place] + step, max(0.0, rates[place] - step)):
            other = rates.copy()
            other[place] = tried
            assert error(other) >= error(rates)


def test_an_engine_is_measured_by_the_loads_that_fit_it() -> None:
    with scripted_engine(saying("a"), num_pages=64, settings={"checks_integrity": False}) as engine:
        made = measure_cost(engine)
    assert made.pass_s >= 0 and any(astuple(made))
