"""The CPU kernels against the same definition in plain torch, and against float32 activations.

The kernels generate greedily. Then each of the other models reads prompt and output in one pass: as long as it would have
drawn every token, it would have generated the same text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cpu_parts.growth import PAGE_TOKENS
from cpu_parts.prompts import Prompts, Tokens
from sgrt.cache.pool import KVPool, PoolShape
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.model.batch import Batch
from sgrt.model.model import Model
from sgrt.model.native_decoder import NativeDecoder
from sgrt.model.packed_decoder import PackedDecoder
from sgrt.model.registry import load_model

_OUTPUT_TOKENS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """What another model makes of the kernels' outputs."""

    outputs: int
    equal_outputs: int  # of which it would have generated every token
    tokens: int
    equal_tokens: int  # up to the first other one of each output
    best_tokens: int  # positions, all of them, at which both find the same token the best
    divergence: float  # mean Kullback-Leibler divergence of the kernels from it, nats a token


def measure(model: str, prompts: Prompts, *, threads: int, count: int) -> dict[str, Parity]:
    """By the other model's name: the packed definition in torch, and float32."""
    checkpoint = open_checkpoint(model)
    asked = prompts.short(count, 31)
    found: dict[str, list[Parity]] = {}
    with NativeDecoder(checkpoint.config, checkpoint, threads=threads) as kernels:
        others: dict[str, Model] = {
            "the definition in torch": PackedDecoder(checkpoint.config, checkpoint),
            "float32": load_model(checkpoint, compute_dtype=torch.float32, device=torch.device("cpu")),
        }
        for prompt in asked:
            tokens = _generated(kernels, prompt)
            own = _logits(kernels, tokens)[len(prompt) - 1 : -1]
            for name, other in others.items():
                theirs = _logits(other, tokens)[len(prompt) - 1 : -1]
                found.setdefault(name, []).append(_compared(own, theirs, tokens[len(prompt) :]))
    return {name: _together(parts) for name, parts in found.items()}


def _generated(model: Model, prompt: Tokens) -> Tokens:
    pool = _pool(model, len(prompt) + _OUTPUT_TOKENS)
    tokens, start = list(prompt), 0
    for _ in range(_OUTPUT_TOKENS):
        logits = model.forward(_chunk(pool, tokens, start, rows=1))
        start = len(tokens)
        tokens.append(int(logits[0].argmax()))
    return tokens


def _logits(model: Model, tokens: Tokens) -> Tensor:
    """Of all positions, [tokens, vocabulary]."""
    with torch.inference_mode():
        return model.forward(_chunk(_pool(model, len(tokens)), tokens, 0, rows=len(tokens)))


def _pool(model: Model, tokens: int) -> KVPool:
    config = model.config
    shape = PoolShape(
        num_layers=len(config.layers),
        num_pages=-(-tokens // PAGE_TOKENS),
        page_tokens=PAGE_TOKENS,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
    )
    return KVPool(shape, dtype=torch.bfloat16)


def _chunk(pool: KVPool, tokens: Tokens, start: int, *, rows: int) -> Batch:
    """The tokens from `start` on, in the pool's pages one after the other; logits of the last `rows`."""
    count = len(tokens) - start
    return Batch(
        token_ids=torch.tensor(tokens[start:]),
        positions=torch.arange(start, len(tokens)),
        slots=torch.arange(start, len(tokens)),
        query_starts=torch.tensor([0, count], dtype=torch.int32),
        context_lengths=torch.tensor([len(tokens)], dtype=torch.int32),
        page_table=torch.arange(pool.shape.num_pages, dtype=torch.int32)[None],
        logit_rows=torch.arange(count - rows, count),
        layers=pool.layers,
    )


def _compared(own: Tensor, theirs: Tensor, drawn: Tokens) -> Parity:
    same = (theirs.argmax(-1) == torch.tensor(drawn)).tolist()
    equal = same.index(False) if False in same else len(same)
    log_own, log_theirs = own.log_softmax(-1), theirs.log_softmax(-1)
    return Parity(
        outputs=1,
        equal_outputs=int(equal == len(same)),
        tokens=len(same),
        equal_tokens=equal,
        best_tokens=sum(same),
        divergence=float((log_theirs.exp() * (log_theirs - log_own)).sum(-1).mean()),
    )


def _together(parts: list[Parity]) -> Parity:
    return Parity(
        outputs=len(parts),
        equal_outputs=sum(part.equal_outputs for part in parts),
        tokens=sum(part.tokens for part in parts),
        equal_tokens=sum(part.equal_tokens for part in parts),
        best_tokens=sum(part.best_tokens for part in parts),
        divergence=math.fsum(part.divergence for part in parts) / len(parts),
    )
