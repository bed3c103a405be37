"""Decode steps of an 8B-shaped Llama, from the host's integers to the drawn tokens, against their byte floor."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import torch

from gpu_parts.bench import Bench
from gpu_parts.executor import PAGE, Executor
from gpu_parts.model_configs import LLAMA_8B, LLAMA_DRY
from sgrt.cache.pool import KVPool
from sgrt.model.config import ModelConfig
from sgrt.model.random_weights import RandomWeights
from sgrt.model.registry import load_model
from sgrt_kernels.device import finish
from sgrt_kernels.layout import PageShape
from sgrt_kernels.ops.masked_sample import SamplingRows, masked_sample
from sgrt_kernels.ops.page_seal import page_seal

FP8 = torch.float8_e4m3fn
_LOADS = ((1, 4096), (16, 4096), (64, 4096), (128, 2048))  # sequences, tokens of each
_DRY_LOADS = ((3, 40),)
_STEPS, _WARM_UPS = 40, 4
_COMPILING_STEPS = 2


@torch.inference_mode()
def time_decode_steps(bench: Bench) -> dict[str, object]:
    """Median steps over exact and FP8 pages: plan, graph, sampling, and the tokens back on the host."""
    config = bench.pick(LLAMA_8B, LLAMA_DRY)
    if bench.is_compiling:
        config = replace(config, layers=config.layers[:1])  # its kernels are those of all
    weights = RandomWeights(config, seed=bench.seed, dtype=torch.bfloat16, device=bench.device)
    model = load_model(weights, compute_dtype=torch.bfloat16, device=bench.device)
    loads = bench.pick(_LOADS, _DRY_LOADS)
    shares: dict[str, object] = {}
    for sealed in (None, FP8):
        for size, length in bench.cases(loads):
            executor = Executor(
                model,
                sequences=size,
                tokens_each=length,
                dtype=torch.bfloat16,
                sealed=sealed,
                device=bench.device,
                tails_each=2,
            )
            _fill(bench, executor.pool)
            seconds = _median_step(bench, executor, config, size, length)
            share = step_bytes(config, size, length, sealed) / bench.copy_bytes_per_s / seconds
            name = f"step batch {size} context {length} {'fp8' if sealed else 'bfloat16'} cache"
            bench.add(
                name,
                f"{seconds * 1e3:.2f} ms",
                f"{share:.0%} of its byte floor, {size / seconds:.0f} tokens/s",
            )
            shares[name] = {"share": share, "seconds": seconds}
            del executor  # the next pool takes its memory
    return shares


def _median_step(bench: Bench, executor: Executor, config: ModelConfig, size: int, length: int) -> float:
    """Steps in which sequences fill their pages at different times, as they do in an engine."""
    steps = _COMPILING_STEPS if bench.is_compiling else bench.pick(_STEPS, 2)
    executor.assume([length - steps - _WARM_UPS - index % (PAGE // 4) for index in range(size)])
    tokens = torch.randint(0, config.vocabulary, (size,), generator=bench.generator, device=bench.device)
    drawn: list[int] = tokens.tolist()
    times = []
    for _ in range(steps + _WARM_UPS):
        finish(bench.device)
        started = time.perf_counter()
        logits = executor.run([[token] for token in drawn])
        drawn = masked_sample(logits, SamplingRows()).tolist()
        times.append(time.perf_counter() - started)
    return statistics.median(times[_WARM_UPS:])


def _fill(bench: Bench, pool: KVPool) -> None:
    """Random keys and values in every page; sealed ones get those of the exact pages, over and over."""
    for layer in pool.layers:
        for pages in (layer.keys, layer.values):
            pages.copy_(bench.normal(*pages.shape[1:]).expand_as(pages))
        if layer.sealed is not None:
            targets = torch.arange(len(layer.sealed.keys), device=bench.device)
            page_seal(layer, targets % len(layer.keys), targets)


def step_bytes(config: ModelConfig, batch: int, length: int, sealed: torch.dtype | None) -> float:
    """Bytes that a decode step has to read: every weight but the embedding table once, and the contexts."""
    layer = (
        config.hidden * (config.query_width + 2 * config.kv_width)
        + config.query_width * config.hidden
        + 3 * config.hidden * config.intermediate
    )
    weights = 2 * (len(config.layers) * layer + config.vocabulary * config.hidden)
    shape = PageShape(page_tokens=PAGE, kv_heads=config.kv_heads, head_dim=config.head_dim)
    page = shape.exact_bytes(torch.bfloat16) if sealed is None else shape.sealed_bytes()
    return weights + len(config.layers) * batch * length * page / PAGE
