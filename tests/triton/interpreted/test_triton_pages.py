"""Sealing and copying pages in Triton: the same bytes as the reference."""

from __future__ import annotations

import pytest
import torch
from sealed_sequence import make_run, paired_layer

from sgrt_kernels.layout import PagedLayer, PageShape, SealedPages, exact_layer, sealed_pages
from sgrt_kernels.ops.page_copy import reference as copy_reference
from sgrt_kernels.ops.page_copy import triton as copy_kernel
from sgrt_kernels.ops.page_seal import reference as seal_reference
from sgrt_kernels.ops.page_seal import triton as seal_kernel

PARTS = (
    "keys",
    "key_scales",
    "key_scale_bases",
    "key_offsets",
    "key_offset_scales",
    "values",
    "value_scales",
)


def filled_layer(exact_dtype: torch.dtype, head_dim: int, page_tokens: int) -> PagedLayer:
    run = make_run(3 * page_tokens, head_dim=head_dim, seed=4)
    layer = exact_layer(
        3, PageShape(page_tokens=page_tokens, kv_heads=2, head_dim=head_dim), dtype=exact_dtype, device="cpu"
    )
    layer.keys.copy_(run.keys.view(layer.keys.shape))
    layer.values.copy_(
        run.values.view(layer.values.shape)
        * torch.logspace(-4, 2, layer.values[:, :, 0, 0].numel()).view(3, page_tokens, 1, 1)
    )
    layer.keys[1, 2, 0, 3] = float("nan")
    layer.keys[1, 3, 1, 3] = float("inf")
    layer.values[1, 4, 0, 5] = -float("inf")
    layer.values[1, 5] = 0.0
    layer.keys[2, :, 1] = 0.0
    return layer


def target_pages(layer: PagedLayer, dtype: torch.dtype, *, transposed: bool) -> SealedPages:
    _, page_tokens, kv_heads, head_dim = layer.keys.shape
    shape = PageShape(page_tokens=page_tokens, kv_heads=kv_heads, head_dim=head_dim)
    return sealed_pages(5, shape, dtype=dtype, device="cpu", transposed_values=transposed)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize(
    ("exact_dtype", "head_dim", "page_tokens", "transposed"),
    [(torch.bfloat16, 64, 32, True), (torch.float32, 96, 16, False), (torch.float16, 32, 32, True)],
)
def test_a_page_seals_to_the_bytes_of_the_reference(
    dtype: torch.dtype, exact_dtype: torch.dtype, head_dim: int, page_tokens: int, transposed: bool
) -> None:
    layer = filled_layer(exact_dtype, head_dim, page_tokens)
    sources, targets = torch.tensor([2, 0, 1]), torch.tensor([4, 1, 2])
    expected = target_pages(layer, dtype, transposed=False)
    seal_reference.page_seal(layer, expected, sources, targets)
    result = target_pages(layer, dtype, transposed=transposed)
    seal_kernel.page_seal(layer, result, sources, targets)
    for part in PARTS:
        left, right = getattr(result, part).contiguous(), getattr(expected, part)
        assert torch.equal(left.view(torch.uint8), right.contiguous().view(torch.uint8)), part


def test_the_soft_float8_cast_gives_the_bytes_of_the_hardware_one(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = filled_layer(torch.float32, 32, 32)
    sources, targets = torch.tensor([2, 0, 1]), torch.tensor([4, 1, 2])
    expected = target_pages(layer, torch.float8_e4m3fn, transposed=False)
    seal_reference.page_seal(layer, expected, sources, targets)
    result = target_pages(layer, torch.float8_e4m3fn, transposed=False)
    monkeypatch.setattr(seal_kernel, "code_kind", lambda sealed: "soft_fp8")
    seal_kernel.page_seal(layer, result, sources, targets)
    # the sign of a zero may differ
    assert torch.equal(result.keys.float(), expected.keys.float())
    assert torch.equal(result.values.float(), expected.values.float())


def test_nothing_to_seal_launches_nothing() -> None:
    layer = filled_layer(torch.float32, 32, 32)
    none = torch.zeros(0, dtype=torch.int64)
    seal_kernel.page_seal(layer, target_pages(layer, torch.int8, transposed=False), none, none)


def test_copying_agrees_with_the_reference() -> None:
    run = make_run(96)
    layers = [
        paired_layer(run, dtype=torch.int8, page_tokens=16, exact_dtype=torch.bfloat16) for _ in range(2)
    ]
    for layer in layers:
        layer.keys.copy_(torch.randn(layer.keys.shape, generator=torch.Generator().manual_seed(0)))
        layer.values.copy_(layer.keys * 2)
    copies = torch.tensor([0, 1, 2]), torch.tensor([5, 3, 4]), torch.tensor([16, 3, 0])
    copy_reference.page_copy(layers[0], *copies)
    copy_kernel.page_copy(layers[1], *copies)
    assert torch.equal(layers[0].keys, layers[1].keys)
    assert torch.equal(layers[0].values, layers[1].values)
