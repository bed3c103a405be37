"""Sealing a page: its error, what it does with NaN and infinity, its size, and copies of exact pages."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sealed_sequence import make_run, paired_layer, write_and_seal
from torch import Tensor

from sgrt_kernels.layout import (
    LARGEST_KEY_VALUE,
    SEALED_DTYPES,
    LayoutError,
    PagedLayer,
    PageShape,
    SealedPages,
    exact_layer,
    sealed_pages,
)
from sgrt_kernels.ops.page_copy import page_copy
from sgrt_kernels.ops.page_seal import page_seal
from sgrt_kernels.scale_code import SMALLEST, decode_scales, encode_scales, scale_bases

DTYPES = pytest.mark.parametrize("dtype", SEALED_DTYPES, ids=str)


def seal(keys: Tensor, values: Tensor, dtype: torch.dtype) -> SealedPages:
    """Seal one page, [page_tokens, kv_heads, head_dim]."""
    page_tokens, kv_heads, head_dim = keys.shape
    sealed = sealed_pages(
        1, PageShape(page_tokens=page_tokens, kv_heads=kv_heads, head_dim=head_dim), dtype=dtype, device="cpu"
    )
    layer = PagedLayer(keys=keys[None], values=values[None], sealed=sealed)
    page_seal(layer, torch.tensor([0]), torch.tensor([0]))
    return sealed


def page(seed: int = 0) -> tuple[Tensor, Tensor]:
    run = make_run(32, seed=seed)
    return run.keys, run.values


@given(
    st.lists(st.floats(min_value=0.0, max_value=2.0**100, width=32), min_size=1, max_size=8),
)
def test_a_coded_scale_reaches_its_scale_and_exceeds_it_by_a_32nd_at_most(scales: list[float]) -> None:
    wanted = torch.tensor(scales)
    bases = scale_bases(wanted)
    decoded = decode_scales(encode_scales(wanted, bases), bases)
    assert bool((decoded >= wanted * (1 - 2**-22)).all())
    floor = bases * SMALLEST
    assert bool((decoded <= torch.maximum(wanted * (33 / 32) * (1 + 2**-22), floor)).all())


def test_every_scale_code_is_its_own_code() -> None:
    codes = torch.arange(256, dtype=torch.uint8)
    base = torch.tensor(1.0)
    assert torch.equal(encode_scales(decode_scales(codes, base), base), codes)


@DTYPES
@given(seed=st.integers(0, 1000))
def test_the_error_of_a_key_is_bounded_by_its_channels_range_within_the_page(
    dtype: torch.dtype, seed: int
) -> None:
    keys, values = page(seed)
    sealed = seal(keys, values, dtype)
    half_range = (keys.amax(0) - keys.amin(0)) / 2
    middle = ((keys.amax(0) + keys.amin(0)) / 2).abs()
    # a coded offset lies within half a step of the middle; 33/32 is the scale's rounding
    reach = (half_range + middle.amax(-1, keepdim=True) / 250) * 33 / 32
    reach = torch.maximum(reach, reach.amax(-1, keepdim=True) * 2**-7)
    step = 1 / 254 if dtype == torch.int8 else 1 / 16
    error = (sealed.dequantized_keys(torch.tensor([0]))[0] - keys).abs().amax(0)
    assert bool((error <= reach * step * 1.02).all())


@DTYPES
def test_the_error_of_a_value_is_bounded_by_its_tokens_largest(dtype: torch.dtype) -> None:
    keys, values = page()
    sealed = seal(keys, values, dtype)
    step = 1 / 254 if dtype == torch.int8 else 1 / 16
    error = (sealed.dequantized_values(torch.tensor([0]))[0] - values).abs().amax(-1)
    assert bool((error <= values.abs().amax(-1) * step * 1.02).all())


@DTYPES
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf"), 3e38, -3e38, 1e-45])
def test_no_nan_and_no_infinity_enters_a_page(dtype: torch.dtype, poison: float) -> None:
    keys, values = page()
    keys[5, 0, 3] = poison
    keys[:, 1, 7] = poison
    values[9, 1, 2] = poison
    values[10] = poison
    sealed = seal(keys, values, dtype)
    assert bool(sealed.dequantized_keys(torch.tensor([0])).isfinite().all())
    assert bool(sealed.dequantized_values(torch.tensor([0])).isfinite().all())
    for part in (
        sealed.keys,
        sealed.values,
        sealed.key_scale_bases,
        sealed.key_offsets,
        sealed.key_offset_scales,
        sealed.value_scales,
    ):
        assert bool(part.to(torch.float32).isfinite().all())


@DTYPES
def test_a_nan_spoils_no_other_channel_and_no_other_token(dtype: torch.dtype) -> None:
    keys, values = page()
    clean = seal(keys, values, dtype)
    keys[5, 0, 3] = values[9, 1, 2] = float("nan")
    spoiled = seal(keys, values, dtype)
    same_keys = (spoiled.keys.float() == clean.keys.float())[0]
    same_keys[:, 0, 3] = True
    assert bool(same_keys.all())
    same_values = (spoiled.values.float() == clean.values.float())[0]
    same_values[9, 1] = True
    assert bool(same_values.all())


@DTYPES
def test_a_page_of_zeros_seals_to_zeros(dtype: torch.dtype) -> None:
    zeros = torch.zeros(32, 2, 32)
    sealed = seal(zeros, zeros, dtype)
    assert not bool(sealed.dequantized_keys(torch.tensor([0])).any())
    assert not bool(sealed.dequantized_values(torch.tensor([0])).any())


@DTYPES
def test_keys_times_a_power_of_two_seal_to_the_same_codes(dtype: torch.dtype) -> None:
    keys, values = page()
    once, more = seal(keys, values, dtype), seal(keys * 128, values, dtype)
    assert torch.equal(once.keys.float(), more.keys.float())
    assert torch.equal(once.key_scales, more.key_scales)
    assert torch.equal(once.key_scale_bases * 128, more.key_scale_bases)


@DTYPES
@given(factor=st.floats(min_value=1e-3, max_value=1e3), seed=st.integers(0, 99))
def test_keys_times_any_number_seal_to_the_same_codes_up_to_ties(
    dtype: torch.dtype, factor: float, seed: int
) -> None:
    keys, values = page(seed)
    factor = min(factor, LARGEST_KEY_VALUE / float(keys.abs().amax()))  # beyond it keys are cut off
    once, more = seal(keys, values, dtype), seal(keys * factor, values, dtype)
    # A product by `factor` rounds: what lies on the border between two codes may fall to the other one.
    same_channel = (once.key_scales == more.key_scales) & (once.key_offsets == more.key_offsets)
    assert int((~same_channel).sum()) <= 1
    differs = (once.keys.float() != more.keys.float()) & same_channel[:, None]
    assert float(differs.double().mean()) < 5e-3
    expected = once.dequantized_keys(torch.tensor([0])) * factor
    result = more.dequantized_keys(torch.tensor([0]))
    step = float(expected.abs().amax()) / (127 if dtype == torch.int8 else 14)
    assert float((result - expected).abs().amax()) <= 1.1 * step


@DTYPES
def test_sealing_touches_the_named_pages_alone(dtype: torch.dtype) -> None:
    run = make_run(96)
    layer = paired_layer(run, dtype=dtype, page_tokens=32)
    assert layer.sealed is not None
    write_and_seal(run, layer, 0, 32)
    before = layer.sealed.keys.float().clone()
    write_and_seal(run, layer, 32, 64)
    changed = (layer.sealed.keys.float() != before).flatten(1).any(1)
    assert int(changed.sum()) == 1


@DTYPES
def test_the_order_of_a_pages_memory_does_not_change_its_bytes(dtype: torch.dtype) -> None:
    run = make_run(64)
    plain = paired_layer(run, dtype=dtype, page_tokens=32)
    transposed = paired_layer(run, dtype=dtype, page_tokens=32, transposed_values=True)
    for layer in (plain, transposed):
        write_and_seal(run, layer, 0, 64)
    assert plain.sealed is not None and transposed.sealed is not None
    assert torch.equal(plain.sealed.keys.float(), transposed.sealed.keys.float())
    assert torch.equal(plain.sealed.values.float(), transposed.sealed.values.float())
    assert transposed.sealed.values.stride(1) == 1


@pytest.mark.parametrize("head_dim", [64, 96, 128, 256])
@pytest.mark.parametrize("kv_heads", [1, 2, 8])
def test_a_sealed_page_is_at_least_1_9_times_smaller_than_a_bfloat16_page(
    head_dim: int, kv_heads: int
) -> None:
    shape = PageShape(page_tokens=32, kv_heads=kv_heads, head_dim=head_dim)
    assert shape.exact_bytes(torch.bfloat16) / shape.sealed_bytes() >= 1.9


@DTYPES
def test_the_stated_bytes_of_a_page_are_those_it_takes(dtype: torch.dtype) -> None:
    shape = PageShape(page_tokens=32, kv_heads=3, head_dim=64)
    sealed = sealed_pages(5, shape, dtype=dtype, device="cpu")
    parts = (
        sealed.keys,
        sealed.key_scales,
        sealed.key_scale_bases,
        sealed.key_offsets,
        sealed.key_offset_scales,
        sealed.values,
        sealed.value_scales,
    )
    assert sum(part.nbytes for part in parts) == 5 * shape.sealed_bytes()


def test_a_layer_without_sealed_pages_refuses_to_seal() -> None:
    layer = exact_layer(
        1, PageShape(page_tokens=16, kv_heads=1, head_dim=16), dtype=torch.float32, device="cpu"
    )
    with pytest.raises(LayoutError, match="no sealed pages"):
        page_seal(layer, torch.tensor([0]), torch.tensor([0]))


def test_pages_cannot_be_sealed_in_a_wide_dtype() -> None:
    with pytest.raises(LayoutError, match="cannot be sealed as"):
        sealed_pages(1, PageShape(page_tokens=16, kv_heads=1, head_dim=16), dtype=torch.float16, device="cpu")


def test_copying_takes_the_first_tokens_and_leaves_the_rest() -> None:
    layer = exact_layer(
        6, PageShape(page_tokens=8, kv_heads=2, head_dim=4), dtype=torch.float32, device="cpu"
    )
    layer.keys.copy_(torch.randn(layer.keys.shape, generator=torch.Generator().manual_seed(0)))
    layer.values.copy_(layer.keys + 1)
    before_keys, before_values = layer.keys.clone(), layer.values.clone()
    page_copy(layer, torch.tensor([0, 1, 2]), torch.tensor([5, 3, 4]), torch.tensor([8, 3, 0]))
    for source, target, length in ((0, 5, 8), (1, 3, 3), (2, 4, 0)):
        assert torch.equal(layer.keys[target, :length], before_keys[source, :length])
        assert torch.equal(layer.values[target, :length], before_values[source, :length])
        assert torch.equal(layer.keys[target, length:], before_keys[target, length:])
