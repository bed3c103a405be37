"""Plans of shared prefixes and the reference attention over them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_tree import make_tree

from sgrt_kernels.ops.tree_attention import TreeRun, plan_tree, tree_attention


@pytest.mark.parametrize("soft_cap", [None, 3.0])
@pytest.mark.parametrize(("rows_per_item", "tokens_per_item"), [(1, 16), (2, 64), (16, 1024), (3, 7)])
def test_a_tree_gives_what_dense_attention_gives(
    rows_per_item: int, tokens_per_item: int, soft_cap: float | None
) -> None:
    tree = make_tree()
    plan = plan_tree(
        tree.runs, num_rows=6, page_tokens=16, rows_per_item=rows_per_item, tokens_per_item=tokens_per_item
    )
    result = tree_attention(tree.query, tree.layer, plan, scale=32**-0.5, soft_cap=soft_cap)
    assert (result - tree.expected(soft_cap=soft_cap)).abs().max() < 1e-5


@settings(max_examples=30)
@given(
    lengths=st.lists(st.integers(0, 70), min_size=1, max_size=6),
    rows_per_item=st.integers(1, 5),
    tokens_per_item=st.integers(1, 40),
    data=st.data(),
)
def test_every_row_meets_every_token_it_sees_once(
    lengths: list[int], rows_per_item: int, tokens_per_item: int, data: st.DataObject
) -> None:
    num_rows, page_tokens = 4, 8
    runs = []
    for index, length in enumerate(lengths):
        rows = data.draw(st.lists(st.integers(0, num_rows - 1), unique=True, max_size=num_rows))
        pages = list(range(index * 10, index * 10 + -(-length // page_tokens)))
        runs.append(TreeRun(pages=pages, num_tokens=length, rows=rows))
    plan = plan_tree(
        runs,
        num_rows=num_rows,
        page_tokens=page_tokens,
        rows_per_item=rows_per_item,
        tokens_per_item=tokens_per_item,
    )
    seen: list[list[int]] = [[] for _ in range(num_rows)]
    for item in range(plan.num_items):
        first = int(plan.first_rows[item])
        for row in plan.rows[first : first + int(plan.row_counts[item])].tolist():
            for token in range(int(plan.token_counts[item])):
                at = int(plan.first_tokens[item]) + token
                seen[row].append(
                    int(plan.pages[int(plan.first_pages[item]) + at // page_tokens]) * 8 + at % 8
                )
    for row in range(num_rows):
        expected = [
            run.pages[t // page_tokens] * 8 + t % 8
            for run in runs
            if row in run.rows
            for t in range(run.num_tokens)
        ]
        assert sorted(seen[row]) == sorted(expected)
    assert plan.tokens_read_flat == sum(len(tokens) for tokens in seen)
    assert plan.tokens_read <= plan.tokens_read_flat or plan.tokens_read_flat == 0


def test_sharing_reads_a_prefix_once() -> None:
    prefix = TreeRun(pages=range(256), num_tokens=4096, rows=range(64))
    own = [TreeRun(pages=range(256 + 16 * i, 272 + 16 * i), num_tokens=256, rows=[i]) for i in range(64)]
    plan = plan_tree([prefix, *own], num_rows=64, page_tokens=16, rows_per_item=64)
    assert plan.tokens_read == 4096 + 64 * 256
    assert plan.tokens_read_flat / plan.tokens_read > 13


def test_a_plan_is_padded_to_a_bucket_with_items_that_do_nothing() -> None:
    plan = plan_tree([TreeRun(pages=[0], num_tokens=3, rows=[0])], num_rows=1, page_tokens=16)
    assert plan.num_items == 16
    assert plan.row_counts.tolist() == [1] + [0] * 15


def test_an_empty_tree_gives_zeros() -> None:
    tree = make_tree()
    plan = plan_tree([], num_rows=6, page_tokens=16)
    assert not bool(tree_attention(tree.query, tree.layer, plan, scale=1.0).any())


def test_a_run_longer_than_its_pages_is_refused() -> None:
    with pytest.raises(ValueError, match="do not fit 1 pages"):
        plan_tree([TreeRun(pages=[0], num_tokens=17, rows=[0])], num_rows=1, page_tokens=16)


def test_a_row_outside_the_batch_is_refused() -> None:
    with pytest.raises(ValueError, match="the batch has 1"):
        plan_tree([TreeRun(pages=[0], num_tokens=1, rows=[1])], num_rows=1, page_tokens=16)
