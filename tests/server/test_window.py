"""The figures of the last minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgrt.server.metrics import Window


class Clock:
    """A clock that is set by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@given(
    entries=st.lists(
        st.tuples(st.floats(0, 30), st.integers(0, 100).map(float)),
        min_size=1,
        max_size=40,
    )
)
def test_the_mean_and_the_rate_are_those_of_the_last_minute_to_within_a_second(
    entries: list[tuple[float, float]],
) -> None:
    clock = Clock()
    window = Window(clock)
    times: list[tuple[float, float]] = []
    for pause_s, value in entries:
        clock.now_s += pause_s
        window.add(value)
        times.append((clock.now_s, value))
    surely = [value for when, value in times if when > clock.now_s - 59]
    perhaps = [value for when, value in times if when >= clock.now_s - 61]
    length_s = min(60.0, max(clock.now_s, 1e-3))
    assert sum(surely) - 1e-6 <= window.per_second * length_s <= sum(perhaps) + 1e-6
    assert min(perhaps) - 1e-9 <= window.mean <= max(perhaps) + 1e-9


def test_a_window_in_which_nothing_happened_is_zero() -> None:
    clock = Clock()
    window = Window(clock)
    window.add(5.0)
    clock.now_s = 200.0
    assert (window.mean, window.per_second) == (0.0, 0.0)


def test_a_window_keeps_a_bucket_a_second_however_much_happens() -> None:
    clock = Clock()
    window = Window(clock)
    for step in range(100_000):
        clock.now_s = step / 1000
        window.add(1.0)
    assert len(window._buckets) <= 62
    assert window.per_second == pytest.approx(1000, rel=0.02)
