"""Tree attention in Triton against dense attention in float64."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from shared_tree import SharedTree, make_tree
from torch import Tensor

from sgrt_kernels.configurations import INTERPRETED
from sgrt_kernels.ops.tree_attention import TreePlan, plan_tree
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


def attend(
    tree: SharedTree, *, rows_per_item: int = 16, tokens_per_item: int = 512, soft_cap: float | None = None
) -> Tensor:
    plan = TreePlan.of(tree.plan(rows_per_item=rows_per_item, tokens_per_item=tokens_per_item))
    return kernels.tree_attention(
        tree.query,
        tree.layer,
        plan,
        tree.context_lengths,
        tree.page_table,
        tree.own_pages,
        scale=tree.query.shape[2] ** -0.5,
        soft_cap=soft_cap,
    )


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "page_tokens", "dtype", "sealed", "tolerance"),
    [
        (6, 2, 32, 16, torch.float32, None, 1e-5),
        (7, 1, 96, 32, torch.float16, None, 2e-3),
        (8, 2, 64, 64, torch.bfloat16, None, 6e-3),
        (6, 2, 64, 16, torch.float32, torch.int8, 2e-3),
        (8, 1, 32, 32, torch.bfloat16, torch.float8_e4m3fn, 6e-3),
    ],
)
@pytest.mark.parametrize(("rows_per_item", "tokens_per_item"), [(2, 64), (16, 512)])
def test_a_tree_gives_what_dense_attention_gives(
    heads: int,
    kv_heads: int,
    head_dim: int,
    page_tokens: int,
    dtype: torch.dtype,
    sealed: torch.dtype | None,
    tolerance: float,
    rows_per_item: int,
    tokens_per_item: int,
) -> None:
    tree = make_tree(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_tokens=page_tokens,
        dtype=dtype,
        sealed=sealed,
    )
    result = attend(tree, rows_per_item=rows_per_item, tokens_per_item=tokens_per_item)
    assert relative_error(result, tree.expected()) < tolerance


@pytest.mark.parametrize("sealed", [None, torch.int8], ids=str)
def test_soft_caps_are_kept(sealed: torch.dtype | None) -> None:
    tree = make_tree(sealed=sealed)
    result = attend(tree, soft_cap=2.0)
    assert relative_error(result, tree.expected(soft_cap=2.0)) < (1e-5 if sealed is None else 2e-3)


@pytest.mark.parametrize("sealed", [None, torch.float8_e4m3fn], ids=str)
def test_the_rest_of_a_context_may_be_split(sealed: torch.dtype | None) -> None:
    tree = make_tree(sealed=sealed)
    plan = TreePlan.of(tree.plan())
    for programs in (1, 24, 200):
        result = kernels.tree_attention(
            tree.query,
            tree.layer,
            plan,
            tree.context_lengths,
            tree.page_table,
            tree.own_pages,
            scale=32**-0.5,
            config=replace(INTERPRETED, target_programs=programs),
        )
        assert relative_error(result, tree.expected()) < (1e-5 if sealed is None else 2e-3)


def test_a_tree_of_empty_items_is_flat_attention() -> None:
    tree = make_tree()
    nothing = plan_tree(tree.tables, [0] * 6, page_tokens=16, rows_per_item=4)
    assert not nothing.items
    result = kernels.tree_attention(
        tree.query, tree.layer, TreePlan.of(nothing), tree.context_lengths, tree.page_table, scale=32**-0.5
    )
    assert relative_error(result, tree.expected()) < 1e-5


def test_no_rows_give_nothing() -> None:
    tree = make_tree()
    empty = TreePlan.of(plan_tree([], [], page_tokens=16, rows_per_item=4))
    result = kernels.tree_attention(
        tree.query[:0], tree.layer, empty, tree.context_lengths[:0], tree.page_table[:0], scale=1.0
    )
    assert result.shape == (0, 6, 32)
