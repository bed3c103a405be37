"""Times of the kernels: memory-bound ones as a share of the copy rate, the others of the matmul rate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
import triton
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import flex_attention

from gpu_parts.bench import Bench
from gpu_parts.correctness import BF16, FP8, INT8, sampling_inputs
from gpu_parts.pages import Contexts, Shape, make_contexts
from sgrt_kernels.activation import Activation
from sgrt_kernels.layout import PageShape
from sgrt_kernels.ops.tree_attention import TreePlan

LLAMA = Shape(heads=32, kv_heads=8, head_dim=128)
DRY = Shape(heads=4, kv_heads=2, head_dim=32)


def _attending(bench: Bench, contexts: Sequence[Contexts]) -> Callable[[int], object]:
    return lambda index: contexts[index].attend(bench)


def context_bytes(contexts: Contexts) -> float:
    """Bytes of keys and values that a decode step has to read, scales included."""
    shape = contexts.shape
    pages = PageShape(page_tokens=shape.page, kv_heads=shape.kv_heads, head_dim=shape.head_dim)
    exact = pages.exact_bytes(shape.dtype) / shape.page
    tokens: list[int] = contexts.lengths.tolist()
    if shape.sealed is None:
        return exact * sum(tokens)
    own = [(length - 1) % shape.page + 1 for length in tokens]
    return pages.sealed_bytes() / shape.page * (sum(tokens) - sum(own)) + exact * sum(own)


def time_decode(bench: Bench) -> dict[str, object]:
    """Decode attention, and torch's scaled dot product over dense bfloat16 contexts beside it."""
    shares: dict[str, object] = {}
    base = bench.pick(LLAMA, DRY)
    cases = bench.pick([(64, 4096), (1, 32768), (256, 1024), (16, 8192)], [(2, 70)])
    for batch, length in bench.cases(cases):
        for sealed in (None, FP8, INT8):
            shape = Shape(heads=base.heads, kv_heads=base.kv_heads, head_dim=base.head_dim, sealed=sealed)
            contexts = [
                make_contexts(bench, shape, [length] * batch, repeats=True)
                for _ in range(1 if bench.is_compiling else bench.pick(3, 1))
            ]
            seconds = bench.seconds(_attending(bench, contexts), len(contexts))
            name = f"decode batch {batch} context {length} {str(sealed or BF16).removeprefix('torch.')}"
            shares[name] = bench.add_bandwidth(name, seconds, context_bytes(contexts[0]))
        shares[f"sdpa batch {batch} context {length}"] = _time_sdpa(bench, base, batch, length)
    return shares


def time_flex(bench: Bench) -> dict[str, object]:
    """The flex_attention of torch over dense bfloat16 contexts."""
    return {"share": _time_flex(bench, bench.pick(LLAMA, DRY), 64, 4096)}


def _dense(bench: Bench, shape: Shape, batch: int, length: int) -> tuple[Tensor, Tensor, Tensor]:
    query = bench.normal(batch, shape.heads, 1, shape.head_dim, dtype=BF16)
    keys = bench.normal(batch, shape.kv_heads, length, shape.head_dim, dtype=BF16)
    return query, keys, torch.roll(keys, 1, 2)


def _time_sdpa(bench: Bench, shape: Shape, batch: int, length: int) -> float:
    query, keys, values = _dense(bench, shape, batch, length)
    seconds = bench.seconds(
        lambda _: functional.scaled_dot_product_attention(query, keys, values, enable_gqa=True)
    )
    return bench.add_bandwidth(
        f"torch sdpa batch {batch} context {length} bfloat16", seconds, 2 * keys.numel() * keys.itemsize
    )


def _time_flex(bench: Bench, shape: Shape, batch: int, length: int) -> float | str:
    if bench.is_dry:
        return "not interpreted"
    query, keys, values = _dense(bench, shape, batch, length)
    attend = torch.compile(flex_attention.flex_attention)
    try:
        seconds = bench.seconds(lambda _: attend(query, keys, values, enable_gqa=True))
    except Exception as error:  # noqa: BLE001  # a peer that does not compile here fails no check of ours
        bench.add(f"torch flex_attention batch {batch} context {length}", "not run", repr(error)[:80])
        return repr(error)[:500]
    return bench.add_bandwidth(
        f"torch flex_attention batch {batch} context {length} bfloat16",
        seconds,
        2 * keys.numel() * keys.itemsize,
    )


def time_extend(bench: Bench) -> dict[str, object]:
    """Chunked prefill, in products a second as a share of the matmul rate."""
    shares: dict[str, object] = {}
    base = bench.pick(LLAMA, DRY)
    for length, chunk in bench.cases(bench.pick([(8192, 8192), (16384, 2048)], [(70, 40)])):
        for sealed in (None, FP8):
            shape = Shape(heads=base.heads, kv_heads=base.kv_heads, head_dim=base.head_dim, sealed=sealed)
            contexts = make_contexts(bench, shape, [length], [chunk], repeats=True)
            seconds = bench.seconds(_attending(bench, [contexts]))
            pairs = chunk * (length - chunk) + chunk * (chunk + 1) / 2
            share = 4 * pairs * shape.heads * shape.head_dim / seconds / bench.matmul_flops
            name = f"extend {chunk} of {length} {str(sealed or BF16).removeprefix('torch.')}"
            bench.add(name, f"{seconds * 1e6:.0f} us", f"{share:.0%} of matmul")
            shares[name] = share
    return shares


def time_rows(bench: Bench) -> dict[str, object]:
    """Norm with residual, gate, rotation: bytes read and written against the copy rate."""
    tokens, width, intermediate = bench.pick((8192, 4096, 14336), (3, 96, 128))
    x, residual = bench.normal(tokens, width, dtype=BF16), bench.normal(tokens, width, dtype=BF16)
    weight = bench.normal(width)
    gate_up = bench.normal(tokens, 2 * intermediate, dtype=BF16)
    heads = x.view(tokens, -1, bench.pick(128, 32))
    angles = bench.normal(tokens, heads.shape[2] // 2)
    size = x.numel() * x.itemsize
    norm, gate, rope = (bench.kernels(op) for op in ("rms_norm", "gated_activation", "rope"))
    cases = {
        "rms_norm with residual": (lambda _: norm.rms_norm(x, weight, 1e-5, residual), 4 * size),
        "gated_activation": (
            lambda _: gate.gated_activation(gate_up, Activation.SILU),
            1.5 * gate_up.numel() * gate_up.itemsize,
        ),
        "rope": (
            lambda _: rope.apply_rope(heads, angles, angles),
            2 * size + 2 * angles.numel() * angles.itemsize,
        ),
    }
    return {
        name: bench.add_bandwidth(name, bench.seconds(run), moved) for name, (run, moved) in cases.items()
    }


def time_sampling(bench: Bench) -> dict[str, object]:
    """Sampling with mask, top-k, top-p and min-p, beside a sampler that sorts."""
    rows, vocabulary = bench.pick((64, 128_256), (2, 300))
    logits, sampling, allowed = sampling_inputs(bench, rows, vocabulary)
    kernel = bench.kernels("masked_sample")
    seconds = bench.seconds(lambda _: kernel.masked_sample(logits, sampling))
    bench.add(f"masked_sample {rows} x {vocabulary}", f"{seconds * 1e6:.0f} us", "goal 100 us")

    def by_sorting(_: int) -> Tensor:
        values, ids = (logits.masked_fill(~allowed, float("-inf")) / 0.8).sort(dim=-1, descending=True)
        values[:, 50:] = float("-inf")
        shares = values.softmax(-1)
        shares[shares.cumsum(-1) - shares >= 0.9] = 0.0
        noise = torch.empty_like(shares).exponential_()
        return ids.gather(1, (shares / noise).argmax(-1, keepdim=True))

    sorting = bench.seconds(by_sorting)
    bench.add(f"torch sort sampler {rows} x {vocabulary}", f"{sorting * 1e6:.0f} us")
    return {"masked_sample_s": seconds, "sort_s": sorting}


def time_tree(bench: Bench) -> dict[str, object]:
    """Tree against flat attention: forks of one long prefix, and sequences that share nothing.

    The runner does not plan a tree where nothing is shared; that line is what it would cost if it did.
    """
    base = bench.pick(LLAMA, DRY)
    ratios: dict[str, object] = {}
    cases = bench.pick(
        [("64 forks of 4096 + 256", 4096, 256, 64), ("64 x 4096, nothing shared", 0, 4096, 64)],
        [("3 forks of 64 + 20", 64, 20, 3)],
    )
    for name, shared, own, forks in bench.cases(cases):
        for sealed in (None, FP8):
            shape = replace(base, sealed=sealed)
            contexts = make_contexts(bench, shape, [shared + own] * forks, repeats=True)
            contexts = contexts.forked(shared // shape.page)
            flat = bench.seconds(_attending(bench, [contexts]))
            tree = contexts.tree()
            seconds = bench.seconds(_attending_tree(bench, contexts, tree))
            case = f"tree, {name}, {str(sealed or BF16).removeprefix('torch.')}"
            ratios[case] = flat / seconds
            bench.add(case, f"{seconds * 1e6:.0f} us", f"{flat / seconds:.2f}x flat ({flat * 1e6:.0f} us)")
    ratios["triton"] = triton.__version__
    return ratios


def _attending_tree(bench: Bench, contexts: Contexts, tree: TreePlan) -> Callable[[int], object]:
    return lambda _: contexts.attend_tree(bench, tree)
