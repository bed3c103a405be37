"""The torch twin rounds as the CPU kernels do, bit for bit."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_batch import make_ragged

from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.weights import ThreadTeam
from sgrt_kernels.ops.paged_attention import native
from sgrt_kernels.twin.arithmetic import fused, sum_of_lanes
from sgrt_kernels.twin.attention import paged_attention
from sgrt_kernels.twin.functions import exponential, hyperbolic_tangent

numbers = st.floats(-1e6, 1e6, width=32)


@given(a=numbers, b=numbers, c=numbers)
def test_fused_is_rounded_once(a: float, b: float, c: float) -> None:
    result = fused(torch.tensor([a]), torch.tensor([b]), torch.tensor([c]))
    assert is_nearest(Fraction(a) * Fraction(b) + Fraction(c), np.float32(result.item()))


def test_fused_knows_on_which_side_of_half_way_it_was() -> None:
    # 1 + 2^-24 lies half-way between two float32; what float64 cannot hold decides.
    a = torch.tensor([2.0**-24, 2.0**-24, 1.0 + 2.0**-12])
    b = torch.tensor([1.0, 1.0 + 2.0**-23, 2.0**-60])
    c = torch.tensor([1.0, 1.0, 1.0 + 2.0**-23])
    assert fused(a, b, c).tolist() == [1.0, 1.0 + 2.0**-23, 1.0 + 2.0**-23]
    tiny = torch.tensor([2.0**-70, -(2.0**-70)])
    near = fused(tiny, torch.tensor([1.0]), torch.tensor([1.0]))
    assert near.tolist() == [1.0, 1.0]


@given(
    half_way=st.integers(1 << 23, (1 << 24) - 1),
    exponent=st.integers(-20, -1),
    sign=st.sampled_from([-1.0, 1.0]),
)
def test_ties_broken_by_lost_bits(half_way: int, exponent: int, sign: float) -> None:
    """c + a * b where a * b is half a unit of c and a hair, which float64 loses."""
    c = sign * float(half_way)
    a, b = 0.5 + 2.0**-24, 1.0 + sign * 2.0 ** (exponent - 3)
    result = fused(torch.tensor([a]), torch.tensor([b]), torch.tensor([c]))
    exact = Fraction(float(np.float32(a))) * Fraction(float(np.float32(b))) + Fraction(c)
    assert is_nearest(exact, np.float32(result.item()))


def test_lanes_are_added_halves_to_halves() -> None:
    x = torch.tensor([1e8, 1.0, -1e8, 3.0, *[0.0] * 12])
    assert sum_of_lanes(x).item() == (1e8 + -1e8) + (1.0 + 3.0)


@given(x=st.floats(-80, 80, width=32))
def test_functions_are_near_the_exact_ones(x: float) -> None:
    value = torch.tensor([x])
    assert exponential(value).item() == pytest.approx(math.exp(x), rel=3e-7)
    assert hyperbolic_tangent(value / 4).item() == pytest.approx(math.tanh(x / 4), rel=1e-6, abs=2e-7)


def test_far_below_zero_the_exponential_is_zero() -> None:
    assert exponential(torch.tensor([-88.0, -torch.inf])).tolist() == [0.0, 0.0]


@pytest.fixture(scope="module")
def team() -> Iterator[ThreadTeam]:
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler on the PATH")
    with ThreadTeam(kernels(), 2) as made:
        yield made


@settings(max_examples=30)
@given(
    contexts=st.lists(st.integers(1, 600), min_size=1, max_size=3),
    data=st.data(),
    window=st.sampled_from([None, 1, 70]),
    soft_cap=st.sampled_from([None, 3.0]),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.int16]),
)
def test_attention_has_the_kernels_bits(
    team: ThreadTeam,
    contexts: list[int],
    data: st.DataObject,
    window: int | None,
    soft_cap: float | None,
    dtype: torch.dtype,
) -> None:
    chunks = [data.draw(st.integers(0, min(context, 40))) for context in contexts]
    ragged = make_ragged(contexts=contexts, chunks=chunks, heads=4, kv_heads=2, head_dim=32, dtype=dtype)
    scale = 32**-0.5
    pages = (ragged.query_starts, ragged.context_lengths, ragged.page_table)
    expected = native.paged_attention(
        team, ragged.query, ragged.layer, *pages, scale=scale, window=window, soft_cap=soft_cap
    )
    scaled = ragged.query * scale
    assert torch.equal(
        paged_attention(scaled, ragged.layer, *pages, window=window, soft_cap=soft_cap), expected
    )


def is_nearest(exact: Fraction, result: np.float32) -> bool:
    """Whether no other float32 is nearer, and of two as near it is the even one."""
    distance = abs(exact - Fraction(float(result)))
    for neighbour in (np.nextafter(result, np.float32(-np.inf)), np.nextafter(result, np.float32(np.inf))):
        other = abs(exact - Fraction(float(neighbour)))
        if other < distance or (other == distance and result.view(np.int32) % 2):
            return False
    return True
