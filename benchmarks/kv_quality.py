"""What a quantized KV cache costs in quality: teacher-forced, against the same model with a float32 cache.

    python benchmarks/kv_quality.py MODEL [--texts FILE ...] [--tokens N] [--dtypes bf16 int8 fp8_e4m3]
    python benchmarks/kv_quality.py MODEL --variants [--max-kl int8=2.5e-4 fp8_e4m3=4e-3]

Every text is read in one pass of N tokens, each query its own page exact and earlier pages sealed. Reported: the
mean and 99th percentile of the Kullback-Leibler divergence per token (nats, float32 || test), how often the most
probable token stays the same, and perplexity. `--variants` also measures the same model written differently: all
keys times 100, or one rotary pair of their channels times 64, and queries divided by it. A cache whose scales are
measured from what it holds does not notice the first, and hardly the second. `--max-kl` makes the status say whether
the bars are kept. `--scale-keys` and `--outlier-pair` measure another such variant alone.
Weights and arithmetic are float32 throughout. The exact pages are bfloat16 unless `--exact-pages` says otherwise: int16
is what the CPU kernels keep (of queries and softmax weights, which those kernels round as well, nothing is rounded here).
"""

from __future__ import annotations

import argparse
import builtins
import difflib
import inspect
import json
import json.decoder
import pydoc_data.topics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from sgrt.checkpoint.opening import open_checkpoint
from sgrt.model.batch import Batch
from sgrt.model.config import ModelConfig
from sgrt.model.decoder import Decoder
from sgrt.model.registry import load_model
from sgrt.tokenizer.tokenizer import Tokenizer
from sgrt_kernels.layout import INTEGER_DTYPE, PagedLayer, PageSeals, PageShape, exact_layer, sealed_pages

SEALED = {"int8": torch.int8, "fp8_e4m3": torch.float8_e4m3fn}
EXACT = {"float32": torch.float32, "bf16": torch.bfloat16, "int16": INTEGER_DTYPE}
_OUTLIER_PAIR = 3
_LARGEST_GROWTH = 2.0  # of the divergence, where only the scale of keys is another


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """One cache dtype on one set of texts."""

    model: str  # as it is, or which variant
    dtype: str
    tokens: int
    mean_kl: float
    p99_kl: float
    top1_agreement: float
    perplexity: float
    perplexity_change: float  # relative to the float32 cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """How keys and values lie in pages: sealed ones have exact ones beside them."""

    tokens: int
    exact_dtype: torch.dtype


def batch_of(token_ids: Sequence[int], config: ModelConfig, dtype: str, layout: Pages) -> Batch:
    """The whole text as one chunk over fresh pages of `dtype`."""
    page_tokens = layout.tokens
    count = len(token_ids)
    pages = -(-count // page_tokens)
    shape = PageShape(page_tokens=page_tokens, kv_heads=config.kv_heads, head_dim=config.head_dim)
    full = torch.arange(count // page_tokens)
    every_page = torch.arange(pages, dtype=torch.int32)[None]

    def layer() -> PagedLayer:
        exact = exact_layer(pages, shape, dtype=EXACT.get(dtype, layout.exact_dtype), device="cpu")
        if dtype in EXACT:
            return exact
        sealed = sealed_pages(max(len(full), 1), shape, dtype=SEALED[dtype], device="cpu")
        return PagedLayer(keys=exact.keys, values=exact.values, sealed=sealed)

    return Batch(
        token_ids=torch.tensor(token_ids),
        positions=torch.arange(count),
        slots=torch.arange(count),
        query_starts=torch.tensor([0, count], dtype=torch.int32),
        context_lengths=torch.tensor([count], dtype=torch.int32),
        page_table=every_page,
        logit_rows=torch.arange(count),
        layers=tuple(layer() for _ in config.layers),
        seals=None if dtype in EXACT else PageSeals(sources=full, targets=full, own_pages=every_page),
    )


def log_probabilities(model: Decoder, token_ids: Sequence[int], dtype: str, layout: Pages) -> Tensor:
    """[tokens, vocabulary], natural."""
    return model.forward(batch_of(token_ids, model.config, dtype, layout)).log_softmax(-1)


def scale_keys(model: Decoder, factor: float, pair: int | None) -> None:
    """Multiply keys (of one rotary pair, or all) by `factor` and divide queries by it, in the weights.

    Raises ValueError for models that normalize queries and keys, where this would change the function.
    """
    config = model.config
    half = config.head_dim // 2
    channels = torch.ones(config.head_dim, dtype=torch.bool)
    if pair is not None:
        channels = torch.arange(config.head_dim) % half == pair
    per_head = torch.where(channels, factor, 1.0)
    for layer in model.weights.layers:
        weights = layer.attention
        if weights.query_norm is not None:
            raise ValueError("this model normalizes its keys; their scale is not free")
        query, key = config.query_width, config.kv_width
        scales = torch.ones(query + 2 * key)
        scales[:query] = 1 / per_head.repeat(config.heads)
        scales[query : query + key] = per_head.repeat(config.kv_heads)
        weights.query_key_value.mul_(scales[:, None])
        if weights.query_key_value_bias is not None:
            weights.query_key_value_bias.mul_(scales)


def measure(
    model: Decoder, name: str, texts: Sequence[Sequence[int]], dtypes: Sequence[str], layout: Pages
) -> list[Quality]:
    """Qualities of `dtypes`, in their order."""
    divergences: dict[str, list[Tensor]] = {dtype: [] for dtype in dtypes}
    agreements: dict[str, list[Tensor]] = {dtype: [] for dtype in dtypes}
    losses: dict[str, list[Tensor]] = {dtype: [] for dtype in ("float32", *dtypes)}
    for token_ids in texts:
        following = torch.tensor(token_ids[1:])[:, None]
        reference = log_probabilities(model, token_ids, "float32", layout)
        losses["float32"].append(-reference[:-1].gather(1, following))
        for dtype in dtypes:
            test = log_probabilities(model, token_ids, dtype, layout)
            divergences[dtype].append((reference.exp() * (reference - test)).sum(-1))
            agreements[dtype].append((reference.argmax(-1) == test.argmax(-1)).double())
            losses[dtype].append(-test[:-1].gather(1, following))
    base = float(torch.cat(losses["float32"]).mean().exp())
    qualities = []
    for dtype in dtypes:
        divergence = torch.cat(divergences[dtype])
        perplexity = float(torch.cat(losses[dtype]).mean().exp())
        qualities.append(
            Quality(
                model=name,
                dtype=dtype,
                tokens=len(divergence),
                mean_kl=float(divergence.mean()),
                p99_kl=float(divergence.quantile(0.99)),
                top1_agreement=float(torch.cat(agreements[dtype]).mean()),
                perplexity=perplexity,
                perplexity_change=perplexity / base - 1,
            )
        )
    return qualities


def default_texts() -> list[str]:
    """Four texts that every Python has: two of prose, two of code."""
    topics = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    docs = "\n\n".join(getattr(builtins, name).__doc__ or "" for name in sorted(dir(builtins)))
    return [topics, docs, inspect.getsource(json.decoder), inspect.getsource(difflib)]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model")
    parser.add_argument("--texts", nargs="*", type=Path, default=[], help="files beside the built-in texts")
    parser.add_argument("--only-first", action="store_true", help="the first text alone")
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--page-tokens", type=int, default=32)
    parser.add_argument(
        "--dtypes", nargs="+", default=["bf16", "int8", "fp8_e4m3"], choices=[*EXACT, *SEALED]
    )
    parser.add_argument(
        "--exact-pages", default="bf16", choices=EXACT, help="of a quantized cache (default: %(default)s)"
    )
    parser.add_argument("--scale-keys", type=float, default=1.0)
    parser.add_argument("--outlier-pair", type=int, help="with --scale-keys: this rotary pair alone")
    parser.add_argument(
        "--variants", action="store_true", help="also keys times 100 and 128, and a pair times 64"
    )
    parser.add_argument(
        "--max-kl", nargs="*", type=_bar, default=[], metavar="DTYPE=KL", help="fail where the mean is larger"
    )
    parser.add_argument("--out", type=Path, help="also write the table as JSON")
    return parser.parse_args()


def _bar(text: str) -> tuple[str, float]:
    dtype, _, bar = text.partition("=")
    return dtype, float(bar)


def variants(model: Decoder) -> Iterator[str]:
    """Rewrite the model in place, one variant after the other; yields their names. The model as it was comes first."""
    yield "as it is"
    scale_keys(model, 100.0, None)
    yield "keys x 100"
    scale_keys(model, 0.01, None)
    scale_keys(model, 128.0, None)
    yield "keys x 128"
    scale_keys(model, 1 / 128.0, None)
    scale_keys(model, 64.0, _OUTLIER_PAIR)
    yield f"pair {_OUTLIER_PAIR} x 64"
    scale_keys(model, 1 / 64.0, _OUTLIER_PAIR)


def broken_bars(qualities: Sequence[Quality], max_kl: Mapping[str, float]) -> list[str]:
    """What does not hold, in words."""
    plain = {quality.dtype: quality for quality in qualities if quality.model == qualities[0].model}
    broken = []
    for quality in qualities:
        before = plain[quality.dtype].mean_kl
        if quality.mean_kl > max_kl.get(quality.dtype, quality.mean_kl):
            broken.append(
                f"{quality.dtype}, {quality.model}: {quality.mean_kl:.2e} > {max_kl[quality.dtype]:.2e}"
            )
        if quality.mean_kl > _LARGEST_GROWTH * before:
            broken.append(f"{quality.dtype}, {quality.model}: {quality.mean_kl / before:.2f} times as it is")
    return broken


@torch.inference_mode()
def main() -> int:
    """Measure and print; 1 where a bar is broken."""
    options = arguments()
    checkpoint = open_checkpoint(options.model)
    tokenizer = Tokenizer(checkpoint.tokenizer_data)
    model = load_model(checkpoint, compute_dtype=torch.float32, device=torch.device("cpu"))
    if options.scale_keys != 1.0:
        scale_keys(model, options.scale_keys, options.outlier_pair)
    texts = default_texts() + [path.read_text(encoding="utf-8") for path in options.texts]
    encoded = [tokenizer.encode(text[: options.tokens * 16])[: options.tokens] for text in texts]
    chosen = encoded[:1] if options.only_first else encoded
    print(
        f"{'model':12} {'cache':10} {'tokens':>6} {'mean KL':>9} {'p99 KL':>9} {'top-1':>7} {'perplexity':>11}"
    )
    layout = Pages(tokens=options.page_tokens, exact_dtype=EXACT[options.exact_pages])
    qualities: list[Quality] = []
    for name in variants(model) if options.variants else ["as it is"]:
        for quality in measure(model, name, chosen, options.dtypes, layout):
            qualities.append(quality)
            print(
                f"{name:12} {quality.dtype:10} {quality.tokens:6} {quality.mean_kl:9.2e} {quality.p99_kl:9.2e} "
                f"{quality.top1_agreement:7.2%} {quality.perplexity:11.4f} ({quality.perplexity_change:+.3%})",
                flush=True,
            )
    if options.out:
        options.out.write_text(json.dumps([asdict(quality) for quality in qualities], indent=2) + "\n")
    broken = broken_bars(qualities, dict(options.max_kl))
    for line in broken:
        print(f"broken: {line}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
