"""What a quantized KV cache costs in time on this CPU, and what it saves in memory.

    python benchmarks/kv_speed.py MODEL [--contexts 512 4096] [--dtypes bf16 int8 fp8_e4m3] [--threads N]

One sequence: a prompt of each length in chunks of 512 tokens, then single tokens; the median time of one is reported.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

import torch

from sgrt.cache.pool import KVPool, PoolShape
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.engine.plan import Plan, Span
from sgrt.engine.runner import ModelRunner
from sgrt.model.native_decoder import NativeDecoder

SEALED = {"bf16": None, "int8": torch.int8, "fp8_e4m3": torch.float8_e4m3fn}
CHUNK_TOKENS = 512
DECODED_TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """One cache dtype at one length of context."""

    prefill_tokens_per_s: float
    decode_ms: float
    page_bytes: int


def measure(model: NativeDecoder, dtype: str, context: int, page_tokens: int) -> Speed:
    """Fill a pool of one sequence with `context` tokens, then decode."""
    config, sealed = model.config, SEALED[dtype]
    pages = (context + DECODED_TOKENS) // page_tokens + 1
    shape = PoolShape(
        num_layers=len(config.layers),
        num_pages=pages,
        page_tokens=page_tokens,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        num_tail_pages=0 if sealed is None else CHUNK_TOKENS // page_tokens + 2,
    )
    pool = KVPool(shape, dtype=torch.bfloat16, sealed_dtype=sealed)
    runner = ModelRunner(model, pool, vocabulary_tokens=config.vocabulary)

    def run(start: int, count: int) -> float:
        begun = -(-(start + count) // page_tokens) - start // page_tokens
        own = [] if sealed is None else list(range(pages, pages + begun))
        tokens = [(7 * place * place + 3) % config.vocabulary for place in range(start, start + count)]
        span = Span(
            tokens=tokens,
            start=start,
            pages=list(range(pages)),
            own_pages=own,
            logits_from=count - 1,
            prompt_tokens=context,
        )
        started = time.perf_counter()
        runner.run(Plan(spans=(span,)))
        return time.perf_counter() - started

    prefill = sum(run(start, min(CHUNK_TOKENS, context - start)) for start in range(0, context, CHUNK_TOKENS))
    decode = [run(context + place, 1) for place in range(DECODED_TOKENS)]
    exact_bytes = shape.bytes_per_token(torch.bfloat16) * page_tokens
    return Speed(
        prefill_tokens_per_s=context / prefill,
        decode_ms=statistics.median(decode) * 1e3,
        page_bytes=exact_bytes if sealed is None else shape.sealed_page_bytes,
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--contexts", nargs="+", type=int, default=[512, 4096])
    parser.add_argument("--dtypes", nargs="+", default=list(SEALED), choices=list(SEALED))
    parser.add_argument("--page-tokens", type=int, default=32)
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args()
    checkpoint = open_checkpoint(options.model)
    with NativeDecoder(checkpoint.config, checkpoint, threads=options.threads) as model:
        print(f"{'context':>7} {'cache':9} {'prefill tok/s':>13} {'decode ms':>9} {'page bytes':>10}")
        for context in options.contexts:
            for dtype in options.dtypes:
                speed = measure(model, dtype, context, options.page_tokens)
                print(
                    f"{context:7} {dtype:9} {speed.prefill_tokens_per_s:13.0f} {speed.decode_ms:9.2f} "
                    f"{speed.page_bytes:10}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
