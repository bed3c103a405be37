"""What a GPU does before its first request: compiling kernels and recording steps takes seconds that nobody should wait for.

Runs over pages that nobody holds yet; what it writes there is overwritten before it is read.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from sgrt.cache.pool import KVPool
from sgrt.config import Limits
from sgrt.engine.decode_graphs import DecodeGraphs
from sgrt.engine.plan import Plan, Span
from sgrt.engine.runner import Runner
from sgrt_kernels.device import finish
from sgrt_kernels.ops.masked_sample import SamplingRows, masked_sample


def warm_up(
    runner: Runner, pool: KVPool, graphs: DecodeGraphs | None, limits: Limits, *, sampled_tokens: int
) -> None:
    """Run a prompt as long as a step takes, one beside a decoding sequence, every recorded step, every way to draw."""
    logits = runner.run(Plan(spans=(_prompt(pool, limits),)))
    if limits.num_pages > 2:
        logits = runner.run(Plan(spans=_mixed(pool)))
    if graphs is not None:
        graphs.record_all()
    for rows in _ways_to_draw(logits[:1, :sampled_tokens]):
        masked_sample(logits[:1, :sampled_tokens], rows)
    finish(pool.device)


def _prompt(pool: KVPool, limits: Limits) -> Span:
    count = min(limits.step_tokens, limits.context_tokens, limits.pool_tokens)
    pages = -(-count // pool.page_tokens)
    return _span(pool, count, first_page=0, pages=pages)


def _mixed(pool: KVPool) -> tuple[Span, Span]:
    """One token, and a chunk that reaches over a page's border, each in pages of its own."""
    return _span(pool, 1, first_page=0, pages=1), _span(pool, pool.page_tokens + 1, first_page=1, pages=2)


def _span(pool: KVPool, count: int, *, first_page: int, pages: int) -> Span:
    tails = range(pool.first_exact_page + first_page, pool.first_exact_page + first_page + pages)
    return Span(
        tokens=[0] * count,
        start=0,
        pages=list(range(first_page, first_page + pages)),
        own_pages=[] if pool.sealed_dtype is None else list(tails),
        logits_from=count - 1,
        prompt_tokens=count,
    )


def _ways_to_draw(logits: Tensor) -> list[SamplingRows]:
    """Of one row: greedy or not, with a mask or not, with each filter or not. Each is a kernel of its own."""
    device = logits.device
    words = -(-logits.shape[1] // 32)
    masks = torch.full((1, words), -1, dtype=torch.int32, device=device)
    ones, integers = torch.ones(1, device=device), torch.ones(1, dtype=torch.int64, device=device)
    ways = [SamplingRows(), SamplingRows(masks=masks)]
    for mask, top_k, top_p, min_p in product((None, masks), (None, integers), (None, ones), (None, ones)):
        ways.append(
            SamplingRows(
                temperature=ones,
                top_k=top_k,
                top_p=top_p,
                min_p=min_p,
                seeds=integers,
                positions=integers,
                masks=mask,
            )
        )
    return ways
