"""The CPU kernels over sealed pages: the reference's bytes, its numbers, and the same bits in any schedule."""

from __future__ import annotations

import shutil
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sealed_sequence import TokenRun, attend, exact_ids, make_run, paired_layer, sealed_ids, write_and_seal
from torch import Tensor

from sgrt_kernels.integer_pages import TILE_TOKENS
from sgrt_kernels.layout import (
    SEALED_DTYPES,
    LayoutError,
    PagedLayer,
    PageShape,
    SealedPages,
    exact_layer,
    sealed_pages,
)
from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.weights import ThreadTeam
from sgrt_kernels.ops.kv_write import kv_write
from sgrt_kernels.ops.page_seal import native as native_seal
from sgrt_kernels.ops.page_seal import reference as reference_seal
from sgrt_kernels.ops.sealed_attention import native as native_attention

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on the PATH")

DTYPES = pytest.mark.parametrize("dtype", SEALED_DTYPES, ids=str)
EXACT_DTYPES = (torch.float32, torch.bfloat16, torch.int16)
EXACT = pytest.mark.parametrize("exact_dtype", EXACT_DTYPES, ids=str)
SIZES = [
    (8, 32, 45),
    (16, 32, 45),
    (32, 64, 300),
    (16, 64, 290),
    (48, 96, 200),
    (128, 64, 300),
    (32, 256, 90),
]
OPTIONS = [{}, {"window": 20}, {"window": 5}, {"soft_cap": 5.0}]
VARIANTS = ((), ("-DSGRT_AVX2",), ("-DSGRT_PORTABLE",))


@cache
def team(flags: tuple[str, ...] = (), threads: int = 2) -> ThreadTeam:
    return ThreadTeam(kernels(flags), threads)


def exact_only(run: TokenRun, dtype: torch.dtype, exact_dtype: torch.dtype, page_tokens: int) -> PagedLayer:
    """All tokens of the run in exact pages, nothing sealed."""
    layer = paired_layer(run, dtype=dtype, page_tokens=page_tokens, exact_dtype=exact_dtype)
    tokens = torch.arange(run.keys.shape[0])
    pages = exact_ids(layer).long()[tokens // page_tokens]
    kv_write(run.keys, run.values, layer, pages * page_tokens + tokens % page_tokens)
    return layer


def skip_broken_tiles(exact_dtype: torch.dtype, page_tokens: int) -> None:
    if exact_dtype == torch.int16 and page_tokens % TILE_TOKENS:
        pytest.skip("integers come in tiles of sixteen tokens")


def full_pages(layer: PagedLayer, tokens: int) -> tuple[Tensor, Tensor]:
    full = torch.arange(tokens // layer.page_tokens)
    return exact_ids(layer).long()[full], sealed_ids(layer).long()[full]


def as_bytes(sealed: SealedPages | None) -> list[Tensor]:
    assert sealed is not None
    return [
        tensor.contiguous().view(torch.uint8)
        for tensor in (
            sealed.keys,
            sealed.key_scales,
            sealed.key_scale_bases,
            sealed.key_offsets,
            sealed.key_offset_scales,
            sealed.values,
            sealed.value_scales,
        )
    ]


def native(
    run: TokenRun, layer: PagedLayer, start: int, end: int, team: ThreadTeam, **options: object
) -> Tensor:
    first, last = start // layer.page_tokens, (end - 1) // layer.page_tokens
    return native_attention.sealed_attention(
        team,
        run.query[start:end].contiguous(),
        layer,
        torch.tensor([0, end - start], dtype=torch.int32),
        torch.tensor([end], dtype=torch.int32),
        sealed_ids(layer)[None, : last + 1].contiguous(),
        exact_ids(layer)[None, first : last + 1].contiguous(),
        scale=run.query.shape[-1] ** -0.5,
        **options,  # type: ignore[arg-type]  # keywords of a test
    )


@DTYPES
@EXACT
@pytest.mark.parametrize(("page_tokens", "head_dim", "tokens"), SIZES)
def test_sealing_gives_the_references_bytes(
    dtype: torch.dtype, exact_dtype: torch.dtype, page_tokens: int, head_dim: int, tokens: int
) -> None:
    skip_broken_tiles(exact_dtype, page_tokens)
    run = make_run(tokens, head_dim=head_dim)
    expected, layer = (exact_only(run, dtype, exact_dtype, page_tokens) for _ in range(2))
    assert expected.sealed is not None
    sources, targets = full_pages(layer, tokens)
    reference_seal.page_seal(expected, expected.sealed, sources, targets)
    native_seal.page_seal(layer, sources, targets)
    for left, right in zip(as_bytes(expected.sealed), as_bytes(layer.sealed), strict=True):
        assert torch.equal(left, right)


@DTYPES
@EXACT
def test_what_is_no_number_is_sealed_as_the_reference_seals_it(
    dtype: torch.dtype, exact_dtype: torch.dtype
) -> None:
    run = make_run(32, head_dim=32)
    bad = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e38, -3e38, 0.0, 1e-42, 7e4])
    for tensor in (run.keys, run.values):
        tensor.view(-1)[::37][: len(bad)] = bad
    layers = [exact_only(run, dtype, exact_dtype, 16) for _ in range(2)]
    sources, targets = full_pages(layers[0], 32)
    assert layers[0].sealed is not None
    reference_seal.page_seal(layers[0], layers[0].sealed, sources, targets)
    native_seal.page_seal(layers[1], sources, targets)
    for left, right in zip(as_bytes(layers[0].sealed), as_bytes(layers[1].sealed), strict=True):
        assert torch.equal(left, right)
    assert layers[1].sealed is not None
    assert layers[1].sealed.dequantized_keys(targets).isfinite().all()
    assert layers[1].sealed.dequantized_values(targets).isfinite().all()


@DTYPES
@EXACT
@pytest.mark.parametrize(("page_tokens", "head_dim", "tokens"), SIZES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_attention_gives_the_references_numbers(
    dtype: torch.dtype,
    exact_dtype: torch.dtype,
    page_tokens: int,
    head_dim: int,
    tokens: int,
    options: dict[str, object],
) -> None:
    skip_broken_tiles(exact_dtype, page_tokens)
    run = make_run(tokens, head_dim=head_dim)
    layer = paired_layer(run, dtype=dtype, page_tokens=page_tokens, exact_dtype=exact_dtype)
    write_and_seal(run, layer, 0, tokens)
    expected = attend(run, layer, 0, tokens, scale=head_dim**-0.5, **options)  # type: ignore[arg-type]  # keywords of a test
    result = native(run, layer, 0, tokens, team(), **options)
    # Over integers a query and a block's weights are rounded to 13 bits.
    tolerance = 1e-2 if exact_dtype == torch.int16 else 3e-5
    torch.testing.assert_close(result, expected, atol=tolerance, rtol=1e-4)


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    dtype=st.sampled_from(SEALED_DTYPES),
    exact_dtype=st.sampled_from(EXACT_DTYPES),
    page_tokens=st.sampled_from([8, 16, 32, 64]),
    head_dim=st.sampled_from([32, 64]),
    options=st.sampled_from(OPTIONS),
)
def test_any_chunks_and_threads_give_the_same_bits(
    data: st.DataObject,
    dtype: torch.dtype,
    exact_dtype: torch.dtype,
    page_tokens: int,
    head_dim: int,
    options: dict[str, object],
) -> None:
    if exact_dtype == torch.int16:
        page_tokens = max(page_tokens, TILE_TOKENS)
    tokens = data.draw(st.integers(1, 330))
    run = make_run(tokens, head_dim=head_dim)
    layer = paired_layer(run, dtype=dtype, page_tokens=page_tokens, exact_dtype=exact_dtype)
    write_and_seal(run, layer, 0, tokens)
    whole = native(run, layer, 0, tokens, team(threads=1), **options)
    parts, start = [], 0
    while start < tokens:
        size = data.draw(st.sampled_from([1, 1, 3, 16, 17, 40, 150]))
        parts.append(native(run, layer, start, min(tokens, start + size), team(), **options))
        start += size
    assert torch.equal(whole, torch.cat(parts))


@DTYPES
@pytest.mark.parametrize("exact_dtype", [torch.bfloat16, torch.int16], ids=str)
@pytest.mark.parametrize("flags", VARIANTS[1:], ids=str)
def test_every_processor_gives_the_same_bits(
    dtype: torch.dtype, exact_dtype: torch.dtype, flags: tuple[str, ...]
) -> None:
    run = make_run(150, head_dim=64)
    layer = paired_layer(run, dtype=dtype, page_tokens=32, exact_dtype=exact_dtype)
    write_and_seal(run, layer, 0, 150)
    for start in (0, 149):
        expected = native(run, layer, start, 150, team())
        assert torch.equal(native(run, layer, start, 150, team(flags)), expected)


@DTYPES
def test_pages_that_the_kernels_cannot_read_are_refused(dtype: torch.dtype) -> None:
    run = make_run(40)
    transposed = paired_layer(run, dtype=dtype, page_tokens=16, transposed_values=True)
    with pytest.raises(LayoutError, match="not contiguous"):
        native(run, transposed, 0, 40, team())
    plain = PagedLayer(keys=transposed.keys, values=transposed.values)
    with pytest.raises(LayoutError, match="no sealed pages"):
        native_seal.page_seal(plain, torch.zeros(0), torch.zeros(0))


@DTYPES
@pytest.mark.parametrize("shared_pages", [1, 3, 8, 9, 12])
def test_sequences_that_share_pages_get_the_bits_they_get_alone(
    dtype: torch.dtype, shared_pages: int
) -> None:
    """Three sequences of 400 tokens, the first pages the same ones: spans shared whole, in part, not at all."""
    page_tokens, tokens, forks = 32, 400, 3
    own = tokens // page_tokens
    runs = [make_run(tokens, head_dim=64, seed=seed) for seed in range(forks)]
    pages = [
        [*range(shared_pages), *range(100 * fork + shared_pages, 100 * fork + own)]
        for fork in range(1, forks + 1)
    ]
    shape = PageShape(page_tokens=page_tokens, kv_heads=2, head_dim=64)
    sealed = sealed_pages(400, shape, dtype=dtype, device="cpu")
    exact = exact_layer(400, shape, dtype=torch.bfloat16, device="cpu")
    layer = PagedLayer(keys=exact.keys, values=exact.values, sealed=sealed)
    for run, table in zip(runs, pages, strict=True):
        for index, page in enumerate([*table, table[-1] + 1]):
            taken = slice(index * page_tokens, min(tokens, (index + 1) * page_tokens))
            count = taken.stop - taken.start
            layer.keys[page, :count] = runs[0].keys[taken] if index < shared_pages else run.keys[taken]
            layer.values[page, :count] = runs[0].values[taken] if index < shared_pages else run.values[taken]
        native_seal.page_seal(layer, torch.tensor(table), torch.tensor(table))

    def attended(forks: list[int], rows: int) -> Tensor:
        count = len(forks)
        return native_attention.sealed_attention(
            team(),
            torch.cat([runs[fork].query[tokens - rows :] for fork in forks]).contiguous(),
            layer,
            torch.arange(count + 1, dtype=torch.int32) * rows,
            torch.full((count,), tokens, dtype=torch.int32),
            torch.tensor([pages[fork] for fork in forks], dtype=torch.int32),
            torch.tensor([[pages[fork][-1] + 1] for fork in forks], dtype=torch.int32),
            scale=0.125,
        )

    for rows in (1, 4):
        alone = torch.cat([attended([fork], rows) for fork in range(forks)])
        assert torch.equal(attended(list(range(forks)), rows), alone)
