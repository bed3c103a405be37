"""Percentiles of a load's report."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sgrt.cli.bench_serve import percentiles


def test_the_nearest_rank_is_the_smallest_value_that_enough_values_do_not_exceed() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert percentiles(hundred) == {"p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}
    assert percentiles([3.0, 1.0, 2.0]) == {"p50": 2.0, "p90": 3.0, "p99": 3.0, "max": 3.0}
    assert percentiles([]) == {}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_as_many_values_as_a_percentile_says_are_at_or_below_it(values: list[float]) -> None:
    found = percentiles(values)
    for name, percent in (("p50", 50), ("p90", 90), ("p99", 99)):
        at_most = sum(value <= found[name] for value in values)
        below = sum(value < found[name] for value in values)
        assert below * 100 < percent * len(values) <= at_most * 100
