"""Paged attention in C++ against the torch definition in float64, and its independence of the batch."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_batch import Ragged, make_ragged
from torch import Tensor

from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.weights import ThreadTeam
from sgrt_kernels.ops.paged_attention import native, reference

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on the PATH")

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int16], ids=str)
# Over integers a query and a block's weights are rounded to 13 bits.
TOLERANCE = {torch.float32: 3e-6, torch.bfloat16: 3e-6, torch.int16: 1e-3}
VARIANTS = {"chosen": (), "avx2": ("-DSGRT_AVX2",), "portable": ("-DSGRT_PORTABLE",)}


@pytest.fixture(scope="module")
def teams() -> Iterator[dict[str, ThreadTeam]]:
    made = {name: ThreadTeam(kernels(flags), 2) for name, flags in VARIANTS.items()}
    yield made
    for team in made.values():
        team.close()


def attend(
    team: ThreadTeam, ragged: Ragged, *, window: int | None = None, soft_cap: float | None = None
) -> Tensor:
    return native.paged_attention(
        team,
        ragged.query,
        ragged.layer,
        ragged.query_starts,
        ragged.context_lengths,
        ragged.page_table,
        scale=ragged.query.shape[-1] ** -0.5,
        window=window,
        soft_cap=soft_cap,
    )


def exact(ragged: Ragged, *, window: int | None = None, soft_cap: float | None = None) -> Tensor:
    return reference.paged_attention(
        ragged.query.double(),
        ragged.layer,
        ragged.query_starts,
        ragged.context_lengths,
        ragged.page_table,
        scale=ragged.query.shape[-1] ** -0.5,
        window=window,
        soft_cap=soft_cap,
    )


@DTYPES
@pytest.mark.parametrize(
    ("contexts", "chunks"),
    [
        ([1], [1]),
        ([64], [1]),
        ([65], [1]),
        ([257, 256, 255], [1, 1, 1]),
        ([300], [300]),
        ([300, 500, 40], [3, 20, 40]),
        ([20, 40], [0, 9]),
    ],
)
@pytest.mark.parametrize(("window", "soft_cap"), [(None, None), (100, None), (None, 2.0)])
def test_it_equals_the_definition(
    teams: dict[str, ThreadTeam],
    contexts: list[int],
    chunks: list[int],
    dtype: torch.dtype,
    window: int | None,
    soft_cap: float | None,
) -> None:
    ragged = make_ragged(contexts=contexts, chunks=chunks, heads=9, kv_heads=3, head_dim=64, dtype=dtype)
    result = attend(teams["chosen"], ragged, window=window, soft_cap=soft_cap)
    expected = exact(ragged, window=window, soft_cap=soft_cap)
    torch.testing.assert_close(result.double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16], ids=str)
@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (14, 2), (4, 1), (4, 4), (24, 1)])
@pytest.mark.parametrize("head_dim", [32, 96, 128, 256])
@pytest.mark.parametrize("page_tokens", [4, 16, 48])
def test_every_shape_of_heads_and_pages(
    teams: dict[str, ThreadTeam],
    heads: int,
    kv_heads: int,
    head_dim: int,
    page_tokens: int,
    dtype: torch.dtype,
) -> None:
    if dtype == torch.int16 and page_tokens == 4:
        page_tokens = 32
    ragged = make_ragged(
        contexts=[70, 33, 300],
        chunks=[1, 19, 2],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_tokens=page_tokens,
        dtype=dtype,
    )
    result = attend(teams["chosen"], ragged)
    torch.testing.assert_close(result.double(), exact(ragged), atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@DTYPES
def test_all_variants_give_the_same_bits(teams: dict[str, ThreadTeam], dtype: torch.dtype) -> None:
    ragged = make_ragged(
        contexts=[300, 90, 40], chunks=[1, 30, 3], heads=6, kv_heads=2, head_dim=64, dtype=dtype
    )
    results = [attend(team, ragged, window=200, soft_cap=5.0) for team in teams.values()]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@settings(max_examples=40)
@given(
    contexts=st.lists(st.integers(1, 600), min_size=1, max_size=4),
    window=st.one_of(st.none(), st.integers(1, 300)),
    dtype=st.sampled_from([torch.bfloat16, torch.int16]),
    data=st.data(),
)
def test_a_row_depends_on_its_own_context_alone(
    teams: dict[str, ThreadTeam],
    contexts: list[int],
    window: int | None,
    dtype: torch.dtype,
    data: st.DataObject,
) -> None:
    chunks = [data.draw(st.integers(1, min(context, 60))) for context in contexts]
    ragged = make_ragged(contexts=contexts, chunks=chunks, dtype=dtype)
    together = attend(teams["chosen"], ragged, window=window)
    which = data.draw(st.integers(0, len(contexts) - 1))
    rows = data.draw(st.integers(1, chunks[which]))
    start = int(ragged.query_starts[which])
    alone = native.paged_attention(
        teams["chosen"],
        ragged.query[start : start + rows].contiguous(),
        ragged.layer,
        torch.tensor([0, rows], dtype=torch.int32),
        torch.tensor([contexts[which] - chunks[which] + rows], dtype=torch.int32),
        ragged.page_table[which : which + 1].contiguous(),
        scale=32**-0.5,
        window=window,
    )
    assert torch.equal(alone, together[start : start + rows])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16], ids=str)
@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("chunks", [[1, 1, 1, 1, 1], [1, 2, 1, 5, 40]])
@pytest.mark.parametrize(
    "num_shared",
    [
        pytest.param([32, 32, 32, 32, 32], id="two spans"),
        pytest.param([27, 27, 27, 27, 27], id="a span and a part"),
        pytest.param([32, 29, 5, 0, 21], id="to different ends"),
    ],
)
def test_sharing_pages_changes_nothing(
    teams: dict[str, ThreadTeam],
    chunks: list[int],
    num_shared: list[int],
    window: int | None,
    dtype: torch.dtype,
) -> None:
    contexts = [530, 530, 700, 530, 530]
    ragged = make_ragged(contexts=contexts, chunks=chunks, dtype=dtype)
    shared = ragged.page_table.clone()
    copied = make_ragged(contexts=contexts, chunks=chunks, dtype=dtype)
    for row, count in enumerate(num_shared):  # pages of 16 tokens
        shared[row, :count] = shared[0, :count]
        for pages in (copied.layer.keys, copied.layer.values):
            pages[copied.page_table[row, :count].long()] = pages[copied.page_table[0, :count].long()]
    arguments = (ragged.query_starts, ragged.context_lengths)
    result = native.paged_attention(
        teams["chosen"], ragged.query, copied.layer, *arguments, shared, scale=0.2, window=window
    )
    expected = native.paged_attention(
        teams["chosen"], ragged.query, copied.layer, *arguments, copied.page_table, scale=0.2, window=window
    )
    assert torch.equal(result, expected)
