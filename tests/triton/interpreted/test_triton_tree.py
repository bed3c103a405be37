"""Tree attention in Triton against dense attention in float64."""

from __future__ import annotations

import pytest
import torch
from shared_tree import make_tree
from torch import Tensor

from sgrt_kernels.ops.tree_attention import plan_tree
from sgrt_kernels.ops.tree_attention import triton as kernels


@pytest.fixture(autouse=True)
def poisoned_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh memory holds NaN: what a kernel does not write shows."""
    empty, empty_like = torch.empty, torch.empty_like
    monkeypatch.setattr(torch, "empty", lambda *a, **k: empty(*a, **k).fill_(float("nan")))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: empty_like(*a, **k).fill_(float("nan")))


def relative_error(result: Tensor, expected: Tensor) -> float:
    error = float((result.double() - expected).norm() / expected.norm())
    return error if error == error else float("inf")


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "page_tokens", "dtype", "tolerance"),
    [
        (6, 2, 32, 16, torch.float32, 1e-5),
        (7, 1, 96, 32, torch.float16, 2e-3),
        (8, 2, 64, 64, torch.bfloat16, 6e-3),
    ],
)
@pytest.mark.parametrize(("rows_per_item", "tokens_per_item"), [(2, 64), (16, 1024)])
def test_a_tree_gives_what_dense_attention_gives(
    heads: int,
    kv_heads: int,
    head_dim: int,
    page_tokens: int,
    dtype: torch.dtype,
    tolerance: float,
    rows_per_item: int,
    tokens_per_item: int,
) -> None:
    tree = make_tree(heads=heads, kv_heads=kv_heads, head_dim=head_dim, page_tokens=page_tokens, dtype=dtype)
    plan = plan_tree(
        tree.runs,
        num_rows=6,
        page_tokens=page_tokens,
        rows_per_item=rows_per_item,
        tokens_per_item=tokens_per_item,
    )
    result = kernels.tree_attention(
        tree.query, tree.layer, plan, scale=head_dim**-0.5, tokens_per_block=32, stages=1
    )
    assert relative_error(result, tree.expected()) < tolerance
    assert not bool(result[5].any())  # a row without tokens


def test_soft_caps_are_kept() -> None:
    tree = make_tree()
    plan = plan_tree(tree.runs, num_rows=6, page_tokens=16)
    result = kernels.tree_attention(tree.query, tree.layer, plan, scale=32**-0.5, soft_cap=2.0, stages=1)
    assert relative_error(result, tree.expected(soft_cap=2.0)) < 1e-5


def test_an_empty_tree_gives_zeros() -> None:
    tree = make_tree()
    result = kernels.tree_attention(
        tree.query, tree.layer, plan_tree([], num_rows=6, page_tokens=16), scale=1.0, stages=1
    )
    assert not bool(result.any())
