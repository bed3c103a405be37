"""How the time of a decode step grows with the batch, the context and the share of it that sequences have in common."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.model.batch import Batch
from sgrt.model.config import ModelConfig
from sgrt.model.native_decoder import NativeDecoder
from sgrt_kernels.integer_pages import CODE_RANGE
from sgrt_kernels.layout import INTEGER_DTYPE

PAGE_TOKENS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One cell of the table."""

    batch: int
    context: int  # tokens of each sequence
    shared: int  # of them in common, a multiple of a page
    milliseconds: float


def measure(decoder: NativeDecoder, *, pool_tokens: int, repeats: int = 7) -> Iterator[Point]:
    """Every combination that fits the pool; medians."""
    config = decoder.config
    shape = PoolShape(
        num_layers=len(config.layers),
        num_pages=pool_tokens // PAGE_TOKENS,
        page_tokens=PAGE_TOKENS,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
    )
    pool = KVPool(shape, dtype=INTEGER_DTYPE)
    for (
        layer
    ) in pool.layers:  # memory that nothing was written to is one page of zeros, which is in every cache
        for pages in (layer.keys, layer.values):
            pages.random_(0, CODE_RANGE)
    for batch, context, share in itertools.product(
        (1, 2, 4, 8, 16, 32, 64), (128, 1024, 4096, 8192), (0.0, 0.5, 1.0)
    ):
        shared = int(context * share) // PAGE_TOKENS * PAGE_TOKENS
        # One page of its own for each sequence, even where all else is shared.
        if share and batch == 1:
            continue
        if shared + batch * (context - shared + 2 * PAGE_TOKENS) > pool_tokens or context > config.context:
            continue
        step = _decode_step(pool, batch, context, shared)
        decoder.forward(step)
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            decoder.forward(step)
            times.append(time.perf_counter() - start)
        yield Point(batch=batch, context=context, shared=shared, milliseconds=statistics.median(times) * 1e3)


def _decode_step(pool: KVPool, batch: int, context: int, shared: int) -> Batch:
    common = list(range(shared // PAGE_TOKENS))
    own = -(-(context + 1 - shared) // PAGE_TOKENS)
    tables = [
        common + list(range(len(common) + index * own, len(common) + (index + 1) * own))
        for index in range(batch)
    ]
    return Batch(
        token_ids=torch.arange(batch),
        positions=torch.full((batch,), context),
        slots=torch.tensor(
            [table[context // PAGE_TOKENS] * PAGE_TOKENS + context % PAGE_TOKENS for table in tables]
        ),
        query_starts=torch.arange(batch + 1, dtype=torch.int32),
        context_lengths=torch.full((batch,), context + 1, dtype=torch.int32),
        page_table=torch.tensor(tables, dtype=torch.int32),
        logit_rows=torch.arange(batch),
        layers=pool.layers,
    )


def prefill_seconds(decoder: NativeDecoder, tokens: int, *, repeats: int = 5) -> float:
    """Median time of one prompt, with the logits of its last token."""
    config = decoder.config
    pages = -(-tokens // PAGE_TOKENS)
    shape = PoolShape(
        num_layers=len(config.layers),
        num_pages=pages,
        page_tokens=PAGE_TOKENS,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
    )
    step = Batch(
        token_ids=torch.arange(tokens) % config.vocabulary,
        positions=torch.arange(tokens),
        slots=torch.arange(tokens),
        query_starts=torch.tensor([0, tokens], dtype=torch.int32),
        context_lengths=torch.tensor([tokens], dtype=torch.int32),
        page_table=torch.arange(pages, dtype=torch.int32)[None],
        logit_rows=torch.tensor([tokens - 1]),
        layers=KVPool(shape, dtype=INTEGER_DTYPE).layers,
    )
    decoder.forward(step)
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        decoder.forward(step)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def multiplies_per_token(config: ModelConfig) -> int:
    """Multiply-accumulates of the layers' matrices for one token."""
    attention = config.hidden * (2 * config.query_width + 2 * config.kv_width)
    return len(config.layers) * (attention + 3 * config.hidden * config.intermediate)
