"""Paged attention in plain torch against dense float64 attention, and its independence of the batch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_batch import Ragged, make_ragged
from torch import Tensor

from sgrt_kernels.ops.paged_attention import paged_attention


def attend(ragged: Ragged, *, window: int | None = None, soft_cap: float | None = None) -> Tensor:
    return paged_attention(
        ragged.query,
        ragged.layer,
        ragged.query_starts,
        ragged.context_lengths,
        ragged.page_table,
        scale=ragged.query.shape[-1] ** -0.5,
        window=window,
        soft_cap=soft_cap,
    )


def dense(ragged: Ragged, *, window: int | None = None, soft_cap: float | None = None) -> Tensor:
    """The same by the textbook, one row and head at a time in float64."""
    out = torch.empty(ragged.query.shape, dtype=torch.float64)
    group = ragged.query.shape[1] // ragged.keys.shape[1]
    keys, values = (
        x.double().repeat_interleave(group, dim=1).transpose(0, 1) for x in (ragged.keys, ragged.values)
    )
    first = 0
    for i, context in enumerate(ragged.context_lengths.tolist()):
        rows = range(int(ragged.query_starts[i]), int(ragged.query_starts[i + 1]))
        for offset, row in enumerate(rows):
            position = context - len(rows) + offset
            low = 0 if window is None else max(0, position - window + 1)
            seen = slice(first + low, first + position + 1)
            scores = torch.einsum("hd,htd->ht", ragged.query[row].double(), keys[:, seen])
            scores = scores * ragged.query.shape[-1] ** -0.5
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            out[row] = torch.einsum("ht,htd->hd", scores.softmax(-1), values[:, seen])
        first += context
    return out


@pytest.mark.parametrize(
    ("contexts", "chunks"),
    [
        ([1], [1]),
        ([16], [1]),
        ([17], [17]),
        ([64, 65, 63], [1, 1, 1]),
        ([130, 5, 33], [40, 5, 1]),
        ([20, 40], [0, 9]),
    ],
)
@pytest.mark.parametrize(("window", "soft_cap"), [(None, None), (7, None), (None, 2.0)])
def test_it_equals_dense_attention(
    contexts: list[int], chunks: list[int], window: int | None, soft_cap: float | None
) -> None:
    ragged = make_ragged(contexts=contexts, chunks=chunks)
    result = attend(ragged, window=window, soft_cap=soft_cap)
    expected = dense(ragged, window=window, soft_cap=soft_cap)
    torch.testing.assert_close(result.double(), expected, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize(("heads", "kv_heads"), [(9, 3), (14, 2), (4, 1), (4, 4)])
def test_every_grouping_of_heads(heads: int, kv_heads: int) -> None:
    ragged = make_ragged(contexts=[37, 50], chunks=[3, 1], heads=heads, kv_heads=kv_heads)
    torch.testing.assert_close(attend(ragged).double(), dense(ragged), atol=2e-6, rtol=2e-6)


def test_pages_in_bfloat16_are_read_as_stored() -> None:
    ragged = make_ragged(contexts=[70], chunks=[4], dtype=torch.bfloat16)
    torch.testing.assert_close(attend(ragged).double(), dense(ragged), atol=2e-6, rtol=2e-6)


def test_an_empty_batch_gives_an_empty_result() -> None:
    assert attend(make_ragged(contexts=[], chunks=[])).shape == (0, 6, 32)
    assert attend(make_ragged(contexts=[5], chunks=[0])).shape == (0, 6, 32)


@settings(max_examples=25, deadline=None)
@given(
    contexts=st.lists(st.integers(1, 90), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    data=st.data(),
)
def test_a_row_depends_on_its_own_context_alone(contexts: list[int], seed: int, data: st.DataObject) -> None:
    chunks = [data.draw(st.integers(1, context)) for context in contexts]
    ragged = make_ragged(contexts=contexts, chunks=chunks, seed=seed)
    together = attend(ragged)
    which = data.draw(st.integers(0, len(contexts) - 1))
    rows = data.draw(st.integers(1, chunks[which]))
    start = int(ragged.query_starts[which])
    alone = paged_attention(
        ragged.query[start : start + rows],
        ragged.layer,
        torch.tensor([0, rows], dtype=torch.int32),
        torch.tensor([contexts[which] - chunks[which] + rows], dtype=torch.int32),
        ragged.page_table[which : which + 1],
        scale=32**-0.5,
    )
    assert torch.equal(alone, together[start : start + rows])
