"""What forward passes cost is told from loads that weigh the parts of a pass differently."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from scripted_engine import saying, scripted_engine

from sgrt.engine.calibration import Observation, fitted, measure_cost
from sgrt_frontend.planning.cost import CostModel

RATES = CostModel(
    pass_s=4e-3,
    prompt_token_s=4e-4,
    output_token_s=5e-4,
    prompt_context_s=6e-7,
    output_context_s=5e-7,
    context_read_s=1e-6,
)
# passes, prompt tokens, output tokens, what these attend to, what is read
COUNTS = [
    (1, 16, 0, 136, 0, 16),
    (4, 1800, 0, 1_620_900, 0, 4_872),
    (24, 16, 23, 136, 644, 660),
    (24, 192, 276, 1_632, 7_728, 7_920),
    (27, 4000, 92, 2_002_000, 93_104, 97_000),
    (27, 1000, 276, 500_500, 279_312, 26_500),
    (25, 480, 276, 115_440, 135_792, 14_832),
]


def observed(noise: float) -> list[Observation]:
    random = np.random.default_rng(1)
    found = []
    for counts in COUNTS:
        passes, prompt, output, attended, attends, read = counts
        seconds = RATES.seconds(
            passes=passes,
            prompt_tokens=prompt,
            output_tokens=output,
            prompt_context=attended,
            output_context=attends,
            context_read=read,
        )
        found.append(
            Observation(
                passes=passes,
                prompt_tokens=prompt,
                output_tokens=output,
                prompt_context=attended,
                output_context=attends,
                context_read=read,
                seconds=seconds * (1 + noise * random.uniform(-1, 1)),
            )
        )
    return found


def test_exact_times_give_the_rates() -> None:
    assert astuple(fitted(observed(0.0))) == pytest.approx(astuple(RATES), rel=1e-6)


def test_noise_never_makes_a_rate_negative() -> None:
    made = fitted(observed(0.3))
    assert all(rate >= 0 for rate in astuple(made)) and made.pass_s > 0


def test_an_engine_is_measured_by_the_loads_that_fit_it() -> None:
    with scripted_engine(saying("a"), num_pages=64, settings={"checks_integrity": False}) as engine:
        made = measure_cost(engine)
    assert made.pass_s >= 0 and any(astuple(made))
