"""The plain torch ops against float64 formulas, and their independence of the batch."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from sgrt_kernels.activation import Activation
from sgrt_kernels.layout import LARGEST_KEY_VALUE, PagedLayer
from sgrt_kernels.ops.embedding import embedding
from sgrt_kernels.ops.gated_activation import gated_activation
from sgrt_kernels.ops.kv_write import kv_write
from sgrt_kernels.ops.linear import linear
from sgrt_kernels.ops.rms_norm import rms_norm
from sgrt_kernels.ops.rope import apply_rope, rope_table
from sgrt_kernels.rope_scaling import FactorScaling, LinearScaling, Llama3Scaling, YarnScaling

TOLERANCES = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("tokens", "width"), [(0, 8), (1, 1), (1, 576), (5, 33), (17, 640)])
def test_rms_norm_follows_its_formula(tokens: int, width: int, dtype: torch.dtype) -> None:
    x, weight = normal(tokens, width, dtype=dtype), normal(width, seed=1, dtype=dtype)
    wide = x.double()
    expected = wide / torch.sqrt(wide.square().mean(-1, keepdim=True) + 1e-5) * weight.double()
    result = rms_norm(x, weight, 1e-5)
    assert result.dtype == dtype
    torch.testing.assert_close(result.double(), expected, atol=TOLERANCES[dtype], rtol=TOLERANCES[dtype])


def test_rms_norm_with_a_residual_returns_the_sum_too() -> None:
    x, residual, weight = normal(3, 40), normal(3, 40, seed=2), normal(40, seed=1)
    normalized, total = rms_norm(x, weight, 1e-6, residual)
    assert torch.equal(total, x + residual)
    assert torch.equal(normalized, rms_norm(total, weight, 1e-6))


@pytest.mark.parametrize("theta", [1e4, 1e6])
def test_rope_turns_each_pair_by_its_angle(theta: float) -> None:
    positions = torch.tensor([0, 1, 7, 8191])
    x = normal(4, 3, 16)
    cos, sin = rope_table(positions, 16, theta)
    rotated = apply_rope(x, cos, sin)
    for token, position in enumerate(positions.tolist()):
        for pair in range(8):
            angle = position * theta ** (-2 * pair / 16)
            first, second = x[token, :, pair].double(), x[token, :, pair + 8].double()
            expected = first * math.cos(angle) - second * math.sin(angle)
            torch.testing.assert_close(rotated[token, :, pair].double(), expected, atol=1e-6, rtol=1e-6)
            expected = second * math.cos(angle) + first * math.sin(angle)
            torch.testing.assert_close(rotated[token, :, pair + 8].double(), expected, atol=1e-6, rtol=1e-6)


def test_rope_of_an_empty_batch_is_empty() -> None:
    cos, sin = rope_table(torch.zeros(0, dtype=torch.int64), 16, 1e4)
    assert cos.shape == sin.shape == (0, 8)
    assert apply_rope(normal(0, 3, 16), cos, sin).shape == (0, 3, 16)


@pytest.mark.parametrize(
    ("scaling", "kept_pairs", "stretched_pairs"),
    [
        (LinearScaling(factor=4.0), 0, 64),
        (
            Llama3Scaling(
                factor=8.0, low_frequency_factor=1.0, high_frequency_factor=4.0, original_context=8192
            ),
            26,
            26,
        ),
        (YarnScaling(factor=4.0, original_context=4096, attention_factor=1.0), 14, 10),
    ],
)
def test_scaling_keeps_short_waves_and_stretches_long_ones(
    scaling: LinearScaling | Llama3Scaling | YarnScaling, kept_pairs: int, stretched_pairs: int
) -> None:
    position = torch.tensor([1])
    plain = torch.atan2(*reversed(rope_table(position, 128, 5e5)))[0]
    scaled = torch.atan2(*reversed(rope_table(position, 128, 5e5, scaling)))[0]
    torch.testing.assert_close(scaled[:kept_pairs], plain[:kept_pairs])
    factor = scaling.factor
    torch.testing.assert_close(
        scaled[64 - stretched_pairs :], plain[64 - stretched_pairs :] / factor, rtol=1e-4, atol=1e-9
    )


def test_factors_divide_each_frequency() -> None:
    factors = tuple(1.0 + pair for pair in range(8))
    position = torch.tensor([1])
    plain = torch.atan2(*reversed(rope_table(position, 16, 1e4)))[0]
    scaled = torch.atan2(*reversed(rope_table(position, 16, 1e4, FactorScaling(factors=factors))))[0]
    torch.testing.assert_close(scaled, plain / torch.tensor(factors))


def test_yarn_raises_the_amplitude_by_the_papers_rule() -> None:
    cos, _ = rope_table(torch.tensor([0]), 64, 1e4, YarnScaling(factor=4.0, original_context=2048))
    torch.testing.assert_close(cos[0], torch.full((32,), 0.1 * math.log(4.0) + 1.0))


@pytest.mark.parametrize("kind", Activation)
@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_gated_activation_follows_its_formula(kind: Activation, tokens: int) -> None:
    gate_up = normal(tokens, 2 * 33) * 4
    gate, up = gate_up.double().chunk(2, dim=-1)
    bent = {
        Activation.SILU: gate / (1 + torch.exp(-gate)),
        Activation.GELU_TANH: gate
        * 0.5
        * (1 + torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))),
    }[kind]
    torch.testing.assert_close(gated_activation(gate_up, kind).double(), bent * up, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kv_write_fills_its_slots_and_no_others(dtype: torch.dtype) -> None:
    layer = PagedLayer(
        keys=torch.full((3, 4, 2, 8), float("nan"), dtype=dtype),
        values=torch.full((3, 4, 2, 8), float("nan"), dtype=dtype),
    )
    keys, values = normal(5, 2, 8), normal(5, 2, 8, seed=1)
    slots = torch.tensor([3, 4, 11, 0, 7])
    kv_write(keys, values, layer, slots)
    assert torch.equal(layer.keys.view(12, 2, 8)[slots], keys.to(dtype))
    assert torch.equal(layer.values.view(12, 2, 8)[slots], values.to(dtype))
    untouched = [slot for slot in range(12) if slot not in slots.tolist()]
    assert bool(layer.keys.view(12, 2, 8)[untouched].isnan().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_no_page_takes_what_is_no_number(dtype: torch.dtype) -> None:
    layer = PagedLayer(
        keys=torch.zeros((1, 8, 1, 2), dtype=dtype), values=torch.zeros((1, 8, 1, 2), dtype=dtype)
    )
    bad = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e38]).view(4, 1, 1).expand(4, 1, 2)
    kv_write(bad, bad, layer, torch.arange(4))
    for pages in (layer.keys, layer.values):
        largest = torch.tensor(LARGEST_KEY_VALUE).to(dtype)
        assert pages[0, :4, 0, 0].tolist() == [0.0, largest, -largest, largest]


def test_embedding_picks_rows() -> None:
    weight = normal(10, 4)
    assert torch.equal(embedding(torch.tensor([3, 3, 0]), weight), weight[[3, 3, 0]])
    assert embedding(torch.zeros(0, dtype=torch.int64), weight).shape == (0, 4)


@pytest.mark.parametrize("tokens", [0, 1, 15, 16, 17, 50])
def test_linear_follows_its_formula(tokens: int) -> None:
    x, weight, bias = normal(tokens, 72), normal(37, 72, seed=1), normal(37, seed=2)
    expected = x.double() @ weight.double().T + bias.double()
    torch.testing.assert_close(linear(x, weight, bias).double(), expected, atol=3e-5, rtol=1e-5)


@settings(max_examples=30, deadline=None)
@given(
    tokens=st.integers(1, 40),
    start=st.integers(0, 39),
    seed=st.integers(0, 99),
    dtype=st.sampled_from(list(TOLERANCES)),
)
def test_a_row_of_linear_does_not_depend_on_its_batch(
    tokens: int, start: int, seed: int, dtype: torch.dtype
) -> None:
    x, weight = normal(40, 96, seed=seed, dtype=dtype), normal(48, 96, seed=seed + 1, dtype=dtype)
    stop = min(start + tokens, 40)
    assert torch.equal(linear(x, weight)[start:stop], linear(x[start:stop], weight))
