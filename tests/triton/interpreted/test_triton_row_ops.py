"""Norms, gates, lookups, rotations and page writes in Triton against their references in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgrt_kernels.activation import Activation
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.embedding import reference as embedding_reference
from sgrt_kernels.ops.embedding import triton as embedding_kernels
from sgrt_kernels.ops.gated_activation import reference as gate_reference
from sgrt_kernels.ops.gated_activation import triton as gate_kernels
from sgrt_kernels.ops.kv_write import reference as write_reference
from sgrt_kernels.ops.kv_write import triton as write_kernels
from sgrt_kernels.ops.rms_norm import reference as norm_reference
from sgrt_kernels.ops.rms_norm import triton as norm_kernels
from sgrt_kernels.ops.rope import reference as rope_reference
from sgrt_kernels.ops.rope import triton as rope_kernels

DTYPES = pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-6), (torch.float16, 1e-3), (torch.bfloat16, 6e-3)],
    ids=["float32", "float16", "bfloat16"],
)


@pytest.fixture(autouse=True)
def poisoned_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh memory holds NaN: what a kernel does not write shows."""
    empty, empty_like = torch.empty, torch.empty_like
    monkeypatch.setattr(torch, "empty", lambda *a, **k: empty(*a, **k).fill_(float("nan")))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: empty_like(*a, **k).fill_(float("nan")))


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def relative_error(result: Tensor, expected: Tensor) -> float:
    error = float((result.double() - expected.double()).norm() / expected.double().norm())
    return error if error == error else float("inf")


@DTYPES
@pytest.mark.parametrize("width", [576, 64, 33])
@pytest.mark.parametrize("has_residual", [False, True])
def test_rms_norm_agrees_with_its_reference(
    dtype: torch.dtype, tolerance: float, width: int, has_residual: bool
) -> None:
    x, weight = normal(3, width, dtype=dtype), normal(width, dtype=dtype, seed=1)
    residual = normal(3, width, dtype=dtype, seed=2) if has_residual else None
    result = norm_kernels.rms_norm(x, weight, 1e-5, residual)
    total = x if residual is None else x + residual
    expected = norm_reference.rms_norm(total.double(), weight.double(), 1e-5)
    assert isinstance(expected, Tensor)
    if isinstance(result, tuple):
        result, stream = result
        assert torch.equal(stream, total)
    assert relative_error(result, expected) < tolerance


def test_the_heads_of_a_wider_product_are_normalized_where_they_lie() -> None:
    wide, weight = normal(3, 10 * 32), normal(32, seed=1)
    for heads in (wide[:, 64:192].view(3, 4, 32), wide.view(3, 10, 32), wide.view(3, 10, 32).transpose(0, 1)):
        result = norm_kernels.rms_norm(heads, weight, 1e-5)
        assert isinstance(result, Tensor)
        assert relative_error(result, norm_reference.rms_norm(heads.double(), weight.double(), 1e-5)) < 1e-5


def test_the_soft_float8_norm_has_the_bytes_of_the_hardware_one(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = normal(3, 96), normal(96, seed=1)
    expected = norm_kernels.rms_norm_quantized(x, weight, 1e-5)
    monkeypatch.setattr(norm_kernels, "has_float8", lambda device: False)
    result = norm_kernels.rms_norm_quantized(x, weight, 1e-5)
    assert torch.equal(result.scales, expected.scales)
    assert torch.equal(result.rows.float(), expected.rows.float())  # the sign of a zero may differ


def test_a_quantized_norm_is_within_its_step() -> None:
    x, weight, residual = normal(3, 96), normal(96, seed=1), normal(3, 96, seed=2)
    rows, scales, stream = norm_kernels.rms_norm_quantized(x, weight, 1e-5, residual)
    reference = norm_reference.rms_norm_quantized(x, weight, 1e-5, residual)
    assert relative_error(scales, reference.scales) < 1e-5
    assert (
        relative_error(rows.float(), reference.rows.float()) < 1e-2
    )  # an element on the border may round away
    expected = norm_reference.rms_norm(x + residual, weight, 1e-5)
    assert isinstance(expected, Tensor)
    assert torch.equal(stream, x + residual)
    assert relative_error(rows.float() * scales[:, None], expected) < 4e-2
    assert bool((rows.float().abs().amax(1) == 448).all())


@DTYPES
@pytest.mark.parametrize("kind", list(Activation))
def test_a_gate_agrees_with_its_reference(dtype: torch.dtype, tolerance: float, kind: Activation) -> None:
    gate_up = normal(3, 2 * 1100, dtype=dtype) * 3
    result = gate_kernels.gated_activation(gate_up, kind)
    assert relative_error(result, gate_reference.gated_activation(gate_up.double(), kind)) < tolerance


def test_extreme_gates_stay_finite() -> None:
    gate_up = torch.tensor([[1e4, -1e4, 0.0, 300.0, 1.0, 1.0, 1.0, 1.0]])
    for kind in Activation:
        result = gate_kernels.gated_activation(gate_up, kind)
        assert torch.allclose(result, torch.tensor([[1e4, 0.0, 0.0, 300.0]]))


def test_embedding_agrees_with_its_reference() -> None:
    weight, ids = normal(50, 1030, dtype=torch.bfloat16), torch.tensor([0, 49, 7, 7])
    assert torch.equal(embedding_kernels.embedding(ids, weight), embedding_reference.embedding(ids, weight))
    assert embedding_kernels.embedding(ids[:0], weight).shape == (0, 1030)


@DTYPES
@pytest.mark.parametrize(("heads", "head_dim"), [(3, 64), (7, 96), (1, 8)])
def test_rope_agrees_with_its_reference(
    dtype: torch.dtype, tolerance: float, heads: int, head_dim: int
) -> None:
    x = normal(4, heads, head_dim, dtype=dtype)
    cos, sin = rope_reference.rope_table(torch.tensor([0, 1, 17, 70_000]), head_dim, 1e4)
    result = rope_kernels.apply_rope(x, cos, sin)
    assert relative_error(result, rope_reference.apply_rope(x.double(), cos, sin)) < tolerance


def test_the_rotary_table_equals_its_reference() -> None:
    positions = torch.tensor([0, 1, 17, 70_000])
    for result, expected in zip(
        rope_kernels.rope_table(positions, 64, 5e5),
        rope_reference.rope_table(positions, 64, 5e5),
        strict=True,
    ):
        assert torch.equal(result, expected)


def empty_layer(dtype: torch.dtype, kv_heads: int, head_dim: int) -> PagedLayer:
    shape = (3, 4, kv_heads, head_dim)
    return PagedLayer(keys=torch.full(shape, 9.0, dtype=dtype), values=torch.full(shape, 9.0, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_keys_and_values_land_in_their_slots_and_nowhere_else(dtype: torch.dtype) -> None:
    layer = empty_layer(dtype, 3, 24)
    wide = normal(5, 2, 3, 24, seed=3)  # keys and values side by side, as one product gives them
    keys, values, slots = wide[:, 0], wide[:, 1], torch.tensor([11, 0, 6, 5, 3])
    write_kernels.kv_write(keys, values, layer, slots)
    expected = torch.full((12, 3, 24), 9.0, dtype=dtype)
    for stored, fresh in ((layer.keys, keys), (layer.values, values)):
        assert torch.equal(stored.view(12, 3, 24), expected.index_copy(0, slots, fresh.to(dtype)))


def test_rotating_on_the_way_equals_rotating_before() -> None:
    query, keys, values = (normal(5, heads, 32, dtype=torch.bfloat16, seed=heads) for heads in (6, 2, 2))
    cos, sin = rope_reference.rope_table(torch.arange(40, 45), 32, 1e4)
    slots = torch.tensor([11, 0, 6, 5, 3])
    layer, expected = empty_layer(torch.bfloat16, 2, 32), empty_layer(torch.bfloat16, 2, 32)
    rotated = write_kernels.rope_kv_write(query, keys, values, cos, sin, layer, slots)
    write_kernels.kv_write(rope_reference.apply_rope(keys, cos, sin), values, expected, slots)
    assert torch.equal(rotated, rope_reference.apply_rope(query, cos, sin))
    assert torch.equal(layer.keys, expected.keys)
    assert torch.equal(layer.values, expected.values)


def test_half_precision_pages_saturate() -> None:
    layer = empty_layer(torch.float16, 1, 8)
    write_kernels.kv_write(torch.full((1, 1, 8), 1e6), torch.full((1, 1, 8), -1e6), layer, torch.tensor([2]))
    assert torch.equal(layer.keys.view(12, 8)[2], torch.full((8,), 65504.0, dtype=torch.float16))
    assert torch.equal(layer.values.view(12, 8)[2], torch.full((8,), -65504.0, dtype=torch.float16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_what_is_no_number_is_stored_as_the_reference_stores_it(dtype: torch.dtype) -> None:
    bad = torch.tensor([float("nan"), float("inf"), -float("inf"), 1e38]).view(4, 1, 1).expand(4, 1, 8)
    layers = [empty_layer(dtype, 1, 8) for _ in range(2)]
    write_kernels.kv_write(bad.contiguous(), bad.contiguous(), layers[0], torch.arange(4))
    write_reference.kv_write(bad, bad, layers[1], torch.arange(4))
    for left, right in zip(layers[0].keys.view(12, 8)[:4], layers[1].keys.view(12, 8)[:4], strict=True):
        assert torch.equal(left, right)
    assert layers[0].values.view(12, 8)[:4].isfinite().all()
