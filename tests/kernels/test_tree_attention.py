"""Plans of what rows share, and the reference attention over them."""

from __future__ import annotations

from random import Random

import pytest
import torch
from shared_tree import make_tree

from sgrt_kernels.configurations import AttentionConfig, tree_rows_per_item
from sgrt_kernels.ops.tree_attention import TreePlan, plan_tree, tree_attention
from sgrt_kernels.ops.tree_attention.plan import MAX_ITEMS, SharedRun, shared_runs


@pytest.mark.parametrize("sealed", [None, torch.int8, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("soft_cap", [None, 3.0])
@pytest.mark.parametrize(("rows_per_item", "tokens_per_item"), [(1, 16), (2, 64), (16, 512), (3, 7)])
def test_a_tree_gives_what_dense_attention_gives(
    rows_per_item: int, tokens_per_item: int, soft_cap: float | None, sealed: torch.dtype | None
) -> None:
    tree = make_tree(sealed=sealed)
    plan = TreePlan.of(tree.plan(rows_per_item=rows_per_item, tokens_per_item=tokens_per_item))
    result = tree_attention(
        tree.query,
        tree.layer,
        plan,
        tree.context_lengths,
        tree.page_table,
        tree.own_pages,
        scale=32**-0.5,
        soft_cap=soft_cap,
    )
    assert (result - tree.expected(soft_cap=soft_cap)).abs().max() < 1e-5


def test_runs_are_what_rows_have_in_common_from_the_root_down() -> None:
    tables = [[7, 8, 9, 1], [7, 8, 9, 2], [7, 8, 3], [4], [7, 5]]
    runs = shared_runs(tables, [4, 4, 3, 1, 2])
    assert runs == [
        SharedRun(first_page=0, num_pages=1, rows=(0, 1, 2, 4)),
        SharedRun(first_page=1, num_pages=1, rows=(0, 1, 2)),
        SharedRun(first_page=2, num_pages=1, rows=(0, 1)),
    ]


def test_the_page_a_row_lies_in_is_not_shared() -> None:
    assert shared_runs([[1, 2], [1, 2]], [1, 1]) == [SharedRun(first_page=0, num_pages=1, rows=(0, 1))]
    assert shared_runs([[1], [1]], [0, 1]) == []


def random_tables(random: Random) -> list[list[int]]:
    """Sequences that part from one another at random, page numbers as a radix tree would hand them out."""
    tables: list[list[int]] = []
    fresh = 0
    for _ in range(random.randrange(8)):
        parent = random.choice(tables) if tables and random.random() < 0.6 else []
        table = parent[: random.randint(0, len(parent))]
        count = random.randint(0 if table else 1, 12)
        tables.append(table + list(range(fresh, fresh + count)))
        fresh += count
    return tables


@pytest.mark.parametrize("seed", range(150))
def test_items_and_the_rest_are_each_rows_context_once_and_in_order(seed: int) -> None:
    random = Random(seed)
    tables = random_tables(random)
    full = [random.randint(0, len(table)) for table in tables]
    rows_per_item, tokens_per_item, max_items = (random.randint(*span) for span in ((1, 4), (1, 40), (0, 30)))
    planned = plan_tree(
        tables,
        full,
        page_tokens=8,
        rows_per_item=rows_per_item,
        tokens_per_item=tokens_per_item,
        max_items=max_items,
    )
    assert len(planned.items) <= max_items
    assert all(1 <= len(item.rows) <= rows_per_item for item in planned.items)
    starts, partials = planned.merges()
    for row, table in enumerate(tables):
        seen: list[int] = []
        for partial in partials[starts[row] : starts[row + 1]]:
            item = planned.items[partial // rows_per_item]
            assert item.rows[partial % rows_per_item] == row
            seen += tables[item.rows[0]][item.first_page : item.first_page + item.num_pages]
        assert seen == table[: planned.first_pages[row]]
        assert planned.first_pages[row] <= full[row]
    read = sum(item.num_pages for item in planned.items)
    assert planned.pages_saved == sum(planned.first_pages) - read


def test_forks_read_their_prefix_once_for_the_rows_of_an_item() -> None:
    prefix = list(range(128))  # 64 forks of 4,096 tokens, in pages of 32
    tables = [[*prefix, *range(200 + 8 * row, 208 + 8 * row)] for row in range(64)]
    planned = plan_tree(tables, [135] * 64, page_tokens=32, rows_per_item=16)
    assert len(planned.items) == 8 * 4
    assert planned.pages_saved == 128 * 60
    assert {planned.first_pages[row] for row in range(64)} == {128}
    neighbours = [item.first_page for item in planned.items]
    assert neighbours == sorted(neighbours)  # those that read the same pages run at the same time


def test_long_prefixes_are_cut_into_longer_items_rather_than_too_many() -> None:
    prefix = list(range(40_000))
    planned = plan_tree(
        [[*prefix, 50_000 + row] for row in range(64)], [40_000] * 64, page_tokens=32, rows_per_item=16
    )
    assert len(planned.items) <= MAX_ITEMS
    assert planned.pages_saved == 40_000 * 60


def test_a_plan_is_padded_with_items_that_do_nothing() -> None:
    planned = plan_tree([[1, 2], [1, 3]], [1, 1], page_tokens=16, rows_per_item=4)
    plan = TreePlan.of(planned)
    assert plan.items.tolist() == [[0, 1, 2]] + [[0, 0, 0]] * 15
    assert plan.rows_per_item == 4
    assert plan.merge_starts.tolist() == [0, 1, 2]
    assert plan.merge_partials.tolist()[:2] == [0, 1]


def test_an_item_has_as_many_rows_as_its_tile_holds_heads_for() -> None:
    rows = {group: tree_rows_per_item(AttentionConfig(), group) for group in (1, 3, 4, 7, 8, 128)}
    assert rows == {1: 64, 3: 21, 4: 16, 7: 9, 8: 8, 128: 1}
