"""Whole models on the Triton kernels: prefill, decode and mixed steps give the reference's logits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from random_models import CONFIGS, random_model
from torch import Tensor

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.engine.plan import Plan, Span
from sgrt.engine.prefix_sharing import PrefixSharing
from sgrt.engine.runner import ModelRunner
from sgrt.model.config import ModelConfig
from sgrt_kernels.device import KernelBackend, kernels_on
from sgrt_kernels.ops.tree_attention import PlannedTree

PAGE = 16
# A prompt, a page border in a decode step, and both kinds of rows in one step: (sequence, tokens, of them wanted).
STEPS = (
    ((0, 31, 1), (1, 5, 1)),
    ((0, 1, 1), (1, 1, 1)),
    ((0, 1, 1), (1, 14, 3), (2, 17, 1)),
    ((0, 1, 1), (1, 1, 1), (2, 1, 1)),
)


def pool_for(config: ModelConfig, sealed: torch.dtype | None, *, num_pages: int, num_tails: int) -> KVPool:
    shape = PoolShape(
        num_layers=len(config.layers),
        num_pages=num_pages,
        page_tokens=PAGE,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        num_tail_pages=num_tails if sealed else 0,
    )
    return KVPool(shape, dtype=torch.float32, sealed_dtype=sealed)


def run_steps(
    family: str,
    sealed: torch.dtype | None,
    backend: KernelBackend,
    *,
    steps: tuple[tuple[tuple[int, int, int], ...], ...] = STEPS,
    is_batch_invariant: bool = False,
) -> list[Tensor]:
    config = CONFIGS[family]
    pool = pool_for(config, sealed, num_pages=12, num_tails=9)
    runner = ModelRunner(
        random_model(family),
        pool,
        vocabulary_tokens=config.vocabulary,
        is_batch_invariant=is_batch_invariant,
    )
    lengths = [0, 0, 0]
    logits = []
    with kernels_on(backend):
        for step in steps:
            spans = []
            for sequence, count, wanted in step:
                start = lengths[sequence]
                lengths[sequence] += count
                pages = range(4 * sequence, 4 * sequence + -(-lengths[sequence] // PAGE))
                own = len(pages) - start // PAGE
                spans.append(
                    Span(
                        tokens=[
                            (7 * at + 3 * sequence) % config.vocabulary for at in range(start, start + count)
                        ],
                        start=start,
                        pages=list(pages),
                        # the tail keeps its page: page n of a sequence is written in tail n % 3
                        own_pages=[12 + 3 * sequence + (start // PAGE + i) % 3 for i in range(own)]
                        if sealed
                        else [],
                        logits_from=count - wanted,
                        prompt_tokens=start + count,
                    )
                )
            logits.append(runner.run(Plan(spans=tuple(spans))))
    return logits


@pytest.mark.parametrize(
    ("family", "sealed", "tolerance"),
    [
        ("llama", None, 1e-4),
        ("qwen2", None, 1e-4),
        ("qwen3", torch.int8, 2e-2),  # sealed pages are read in half precision
        ("gemma3", None, 1e-4),
        ("gemma3", torch.float8_e4m3fn, 2e-2),
    ],
    ids=str,
)
def test_a_model_gives_the_logits_of_its_reference(
    family: str, sealed: torch.dtype | None, tolerance: float
) -> None:
    expected = run_steps(family, sealed, KernelBackend.REFERENCE)
    result = run_steps(family, sealed, KernelBackend.TRITON)
    for step, reference in zip(result, expected, strict=True):
        assert float((step - reference).norm() / reference.norm()) < tolerance


@pytest.mark.parametrize("sealed", [None, torch.int8], ids=str)
def test_a_rows_bits_do_not_depend_on_its_batch_where_that_is_asked_for(sealed: torch.dtype | None) -> None:
    batched = run_steps("llama", sealed, KernelBackend.TRITON, is_batch_invariant=True)
    alone = run_steps(
        "llama",
        sealed,
        KernelBackend.TRITON,
        steps=tuple(tuple(work for work in step if work[0] == 0) for step in STEPS),
        is_batch_invariant=True,
    )
    for together, single in zip(batched, alone, strict=True):
        assert torch.equal(together[:1], single)  # the first sequence's rows come first


# Two pages of a prompt, three sequences that go on from them, and a fourth of its own: (sequence, start, tokens).
FORKS = (
    ((0, 0, 37), (3, 0, 20)),
    ((1, 32, 9), (2, 32, 3)),
    ((0, 37, 1), (1, 41, 1), (2, 35, 1), (3, 20, 1)),
    ((0, 38, 1), (3, 21, 5), (1, 42, 1), (2, 36, 1)),
)
EAGER = PrefixSharing(page_tokens=PAGE, rows_per_item=2, fewest_pages_saved=1)


def run_forks(
    family: str, sealed: torch.dtype | None, backend: KernelBackend, sharing: PrefixSharing | None
) -> list[Tensor]:
    config = CONFIGS[family]
    pool = pool_for(config, sealed, num_pages=10, num_tails=12)
    runner = ModelRunner(random_model(family), pool, vocabulary_tokens=config.vocabulary, sharing=sharing)
    tables = ([0, 1, 2], [0, 1, 3], [0, 1, 4], [5, 6, 7])
    logits = []
    with kernels_on(backend):
        for step in FORKS:
            spans = []
            for sequence, start, count in step:
                first, last = start // PAGE, (start + count - 1) // PAGE
                spans.append(
                    Span(
                        tokens=[(7 * at + 3 * sequence) % config.vocabulary for at in range(count)],
                        start=start,
                        pages=tables[sequence],
                        own_pages=[10 + 3 * sequence + page % 3 for page in range(first, last + 1)]
                        if sealed
                        else [],
                        logits_from=0,
                        prompt_tokens=start + count,
                    )
                )
            logits.append(runner.run(Plan(spans=tuple(spans))).clone())
    return logits


@pytest.mark.parametrize(
    ("family", "sealed", "tolerance"),
    [
        ("llama", None, 1e-4),
        ("qwen2", torch.int8, 2e-2),
        ("gemma3", None, 1e-4),  # a layer that looks through a window, and one that shares
        ("gemma3", torch.float8_e4m3fn, 2e-2),
    ],
    ids=str,
)
def test_sequences_that_share_pages_give_the_logits_of_their_reference(
    family: str, sealed: torch.dtype | None, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees: list[PlannedTree | None] = []
    planned = PrefixSharing.tree

    def noted(sharing: PrefixSharing, spans: Sequence[Span]) -> PlannedTree | None:
        trees.append(planned(sharing, spans))
        return trees[-1]

    monkeypatch.setattr(PrefixSharing, "tree", noted)
    expected = run_forks(family, sealed, KernelBackend.REFERENCE, None)
    result = run_forks(family, sealed, KernelBackend.TRITON, EAGER)
    assert [None if tree is None else tree.first_pages for tree in trees] == [
        None,
        None,
        (2, 2, 2, 0),
        (2, 2, 2),
    ]
    for step, reference in zip(result, expected, strict=True):
        assert float((step - reference).norm() / reference.norm()) < tolerance
