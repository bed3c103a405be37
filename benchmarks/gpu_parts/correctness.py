"""Every op at real shapes against float64, on the device, with fresh inputs."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from gpu_parts.bench import Bench, relative_error
from gpu_parts.pages import Shape, make_contexts
from sgrt_kernels.activation import Activation
from sgrt_kernels.layout import PageShape, exact_layer, sealed_pages
from sgrt_kernels.ops.gated_activation import reference as gate_reference
from sgrt_kernels.ops.masked_sample import reference as sample_reference
from sgrt_kernels.ops.masked_sample.rows import LogitBias, SamplingRows, TokenHistory
from sgrt_kernels.ops.page_copy import reference as copy_reference
from sgrt_kernels.ops.page_seal import reference as seal_reference
from sgrt_kernels.ops.rms_norm import reference as norm_reference
from sgrt_kernels.ops.rope import reference as rope_reference

BF16, F16, INT8, FP8 = torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn
# relative errors: what rounding the inputs of the dots to the compute type costs, with room
LIMITS = {BF16: 8e-3, F16: 4e-3}
REAL_SHAPES = (
    Shape(heads=32, kv_heads=8, head_dim=128),
    Shape(heads=32, kv_heads=8, head_dim=128, sealed=FP8),
    Shape(heads=32, kv_heads=8, head_dim=128, sealed=INT8),
    Shape(heads=14, kv_heads=2, head_dim=64, sealed=FP8),
    Shape(heads=9, kv_heads=3, head_dim=64, sealed=INT8, page=16),
    Shape(heads=32, kv_heads=32, head_dim=96, dtype=F16),
    Shape(heads=4, kv_heads=1, head_dim=256, sealed=FP8, window=512),
    Shape(heads=16, kv_heads=8, head_dim=256, soft_cap=50.0, page=64),
    Shape(heads=8, kv_heads=1, head_dim=128, page=128, sealed=FP8, soft_cap=30.0),
)
DRY_SHAPES = (
    Shape(heads=4, kv_heads=2, head_dim=32),
    Shape(heads=3, kv_heads=1, head_dim=32, sealed=FP8),
    Shape(heads=4, kv_heads=1, head_dim=32, sealed=INT8, window=40),
)


def limit_of(shape: Shape) -> float:
    """Sealed pages are read in half precision."""
    return max(LIMITS[F16] * 2 if shape.sealed else 0.0, LIMITS[shape.dtype])


def check_attention(bench: Bench) -> dict[str, object]:
    """Decode, extend and tree attention over exact and sealed pages."""
    errors: dict[str, object] = {}
    lengths = bench.pick([1, 37, 1000, 4097], [1, 37, 70])
    for shape in bench.cases(bench.pick(REAL_SHAPES, DRY_SHAPES)):
        limit = limit_of(shape)
        for name, chunks in (("decode", None), ("extend", [min(length, 300) for length in lengths])):
            contexts = make_contexts(bench, shape, lengths, chunks)
            error = relative_error(contexts.attend(bench), contexts.expected())
            errors[f"{name} {shape}"] = error
            bench.check(f"{name} {shape}", error, limit)
    for shape in bench.cases(bench.pick((*REAL_SHAPES[:4], REAL_SHAPES[7]), DRY_SHAPES[:2])):
        errors[f"tree {shape}"] = _check_tree(bench, shape)
    for shape in bench.cases(bench.pick(REAL_SHAPES[:3], DRY_SHAPES[:2])):
        _check_mixed(bench, shape)
    return errors


def _check_mixed(bench: Bench, shape: Shape) -> None:
    """Single rows before chunks are decoded, and with a fixed cut their bits are those they have alone."""
    lengths, chunks = bench.pick(([4000, 37, 1, 900], [1, 1, 1, 200]), ([70, 1, 33], [1, 1, 20]))
    contexts = make_contexts(bench, shape, lengths, chunks)
    singles = chunks.count(1)
    result = contexts.attend(bench, num_single=singles, is_batch_invariant=True)
    bench.check(f"mixed {shape}", relative_error(result, contexts.expected()), LIMITS[BF16])
    alone = contexts.first().attend(bench, is_batch_invariant=True)
    assert torch.equal(alone, result[:1]), f"{shape}: other bits in another batch"


def _check_tree(bench: Bench, shape: Shape) -> float:
    """Forks of a long prefix, a few of which share more, and one that shares nothing."""
    shared, own, forks = bench.pick((4000, 250, 48), (70, 20, 5))
    columns = shared // shape.page
    contexts = make_contexts(bench, shape, [shared + own + 3 * row for row in range(forks)])
    table = contexts.forked(columns).page_table.clone()
    table[-1] = contexts.page_table[-1]
    table[1:3, : columns + 1] = table[1, : columns + 1]
    contexts = contexts.over(table)
    error = relative_error(contexts.attend_tree(bench, contexts.tree()), contexts.expected())
    bench.check(f"tree {shape}", error, limit_of(shape))
    return error


def check_rows(bench: Bench) -> dict[str, object]:
    """Norms, gates, rotations, page writes and seals."""
    tokens, width = bench.pick((333, 4096), (3, 96))
    x, residual = bench.normal(tokens, width, dtype=BF16), bench.normal(tokens, width, dtype=BF16)
    weight = bench.normal(width)
    norm, total = bench.kernels("rms_norm").rms_norm(x, weight, 1e-5, residual)
    expected = norm_reference.rms_norm((x + residual).double(), weight.double(), 1e-5)
    errors: dict[str, object] = {"rms_norm": relative_error(norm, expected)}
    assert torch.equal(total, x + residual)
    gated = bench.kernels("gated_activation").gated_activation(x, Activation.SILU)
    errors["gated_activation"] = relative_error(
        gated, gate_reference.gated_activation(x.double(), Activation.SILU)
    )
    heads = x.view(tokens, -1, bench.pick(128, 32))
    positions = torch.arange(tokens, device=bench.device) * 97
    cos, sin = rope_reference.rope_table(positions, heads.shape[2], 5e5)
    rotated = bench.kernels("rope").apply_rope(heads, cos, sin)
    errors["rope"] = relative_error(rotated, rope_reference.apply_rope(heads.double(), cos, sin))
    for name, error in errors.items():
        bench.check(name, float(str(error)), LIMITS[BF16])
    _check_quantized_norm(bench, x, weight, residual)
    _check_rotated_writes(bench)
    _check_pages(bench)
    _check_moves(bench)
    return errors


def _check_quantized_norm(bench: Bench, x: Tensor, weight: Tensor, residual: Tensor) -> None:
    """Float8 has three bits of fraction: an element is off by a sixteenth at most, by less on the whole."""
    rows, scales, _ = bench.kernels("rms_norm").rms_norm_quantized(x, weight, 1e-5, residual)
    expected = norm_reference.rms_norm((x + residual).double(), weight.double(), 1e-5)
    assert isinstance(expected, Tensor)
    bench.check("rms_norm to float8", relative_error(rows.double() * scales[:, None], expected), 4e-2)


def _check_rotated_writes(bench: Bench) -> None:
    """Keys as wide as a model's, cut from a wider product, rotated on their way into pages."""
    tokens, heads, kv_heads, width = bench.pick((333, 32, 8, 128), (5, 4, 2, 32))
    shape = PageShape(page_tokens=32, kv_heads=kv_heads, head_dim=width)
    wide = bench.normal(tokens, (heads + 2 * kv_heads) * width, dtype=BF16)
    widths = [heads * width, kv_heads * width, kv_heads * width]
    query, keys, values = (part.view(tokens, -1, width) for part in torch.split(wide, widths, dim=1))
    positions = torch.arange(tokens, device=bench.device) * 31
    cos, sin = rope_reference.rope_table(positions, width, 5e5)
    slots = torch.randperm(tokens, device=bench.device, generator=bench.generator)
    layer = exact_layer(-(-tokens // 32), shape, dtype=BF16, device=bench.device)
    rotated = bench.kernels("kv_write").rope_kv_write(query, keys, values, cos, sin, layer, slots)
    stored = layer.keys.view(-1, kv_heads, width)[slots]
    for name, result, plain in (("queries", rotated, query), ("keys", stored, keys)):
        expected = rope_reference.apply_rope(plain.double(), cos, sin)
        bench.check(f"rope_kv_write, {name}", relative_error(result, expected), LIMITS[BF16])
    assert torch.equal(layer.values.view(-1, kv_heads, width)[slots], values), "rope_kv_write: other values"


def _check_moves(bench: Bench) -> None:
    """What moves numbers and computes none: equal to the last bit."""
    vocabulary, width, tokens = bench.pick((128_256, 4096, 333), (100, 96, 5))
    table = bench.normal(vocabulary, width, dtype=BF16)
    ids = torch.randint(0, vocabulary, (tokens,), device=bench.device, generator=bench.generator)
    assert torch.equal(bench.kernels("embedding").embedding(ids, table), table[ids]), "embedding: other rows"
    shape = PageShape(page_tokens=32, kv_heads=bench.pick(8, 2), head_dim=bench.pick(128, 32))
    layers = [exact_layer(6, shape, dtype=BF16, device=bench.device) for _ in range(2)]
    for pages in ("keys", "values"):
        getattr(layers[0], pages).copy_(bench.normal(*layers[0].keys.shape))
        getattr(layers[1], pages).copy_(getattr(layers[0], pages))
    copies = [torch.tensor(numbers, device=bench.device) for numbers in ([0, 1, 2], [5, 3, 4], [32, 7, 0])]
    bench.kernels("page_copy").page_copy(layers[0], *copies)
    copy_reference.page_copy(layers[1], *copies)
    same = torch.equal(layers[0].keys, layers[1].keys) and torch.equal(layers[0].values, layers[1].values)
    assert same, "page_copy: other tokens than the reference's"
    bench.add("embedding, page_copy", "ok", "equal to the reference")


def _check_pages(bench: Bench) -> None:
    """Writes are exact, and a page seals to the reference's bytes."""
    shape = bench.pick(
        PageShape(page_tokens=32, kv_heads=8, head_dim=128),
        PageShape(page_tokens=16, kv_heads=1, head_dim=32),
    )
    pages = bench.pick(64, 3)
    layer = exact_layer(pages, shape, dtype=BF16, device=bench.device)
    slots = torch.randperm(pages * shape.page_tokens, device=bench.device, generator=bench.generator)
    fresh = bench.normal(len(slots), shape.kv_heads, shape.head_dim, dtype=BF16)
    bench.kernels("kv_write").kv_write(fresh, fresh * 2, layer, slots)
    flat = layer.keys.view(len(slots), shape.kv_heads, shape.head_dim)
    assert torch.equal(flat[slots], fresh), "kv_write: keys are not where they belong"
    every = torch.arange(pages, device=bench.device)
    for dtype in (INT8, FP8):
        sealed = [
            sealed_pages(pages, shape, dtype=dtype, device=bench.device, transposed_values=True)
            for _ in range(2)
        ]
        bench.kernels("page_seal").page_seal(layer, sealed[0], every, every)
        seal_reference.page_seal(layer, sealed[1], every, every)
        same = all(
            torch.equal(_bytes(getattr(sealed[0], part)), _bytes(getattr(sealed[1], part)))
            for part in (
                "keys",
                "key_scales",
                "key_scale_bases",
                "key_offsets",
                "key_offset_scales",
                "values",
            )
        )
        assert same, f"page_seal {dtype}: other bytes than the reference"
    bench.add("kv_write, page_seal int8 and fp8", "ok", "equal to the reference byte for byte")


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(torch.uint8)


def check_sampling(bench: Bench) -> dict[str, object]:
    """The tokens the reference draws, up to ties of its rounding, and never a masked one."""
    rows, vocabulary = bench.pick((64, 128_256), (3, 300))
    logits, sampling, allowed = sampling_inputs(bench, rows, vocabulary)
    tokens = bench.kernels("masked_sample").masked_sample(logits, sampling)
    assert bool(allowed.gather(1, tokens[:, None]).all()), "masked_sample: drew a masked token"
    agreement = float((tokens == sample_reference.masked_sample(logits, sampling)).double().mean())
    bench.check("masked_sample differs from its reference", 1 - agreement, 1 / rows)
    adjusted = replace(sampling, history=_history(bench, rows, vocabulary), bias=_bias(bench, rows))
    tokens = bench.kernels("masked_sample").masked_sample(logits, adjusted)
    adjusted_agreement = float((tokens == sample_reference.masked_sample(logits, adjusted)).double().mean())
    bench.check("masked_sample with penalties and bias differs", 1 - adjusted_agreement, 1 / rows)
    return {"agreement": agreement, "adjusted_agreement": adjusted_agreement}


def _history(bench: Bench, rows: int, vocabulary: int) -> TokenHistory:
    """Every row has seen a hundred tokens, half of them in what it generated."""
    seen = min(100, vocabulary // 2)
    ones = torch.ones(rows, device=bench.device)
    tokens = torch.rand(rows, vocabulary, device=bench.device, generator=bench.generator).topk(seen).indices
    return TokenHistory(
        rows=torch.arange(rows, device=bench.device).repeat_interleave(seen),
        tokens=tokens.sort(dim=-1).values.flatten(),
        output_counts=(torch.arange(rows * seen, device=bench.device) % 2).float(),
        repetition_penalty=ones * 1.2,
        presence_penalty=ones * 0.3,
        frequency_penalty=ones * 0.1,
    )


def _bias(bench: Bench, rows: int) -> LogitBias:
    return LogitBias(
        rows=torch.arange(rows, device=bench.device),
        tokens=torch.arange(rows, device=bench.device) * 3 % 50,
        values=torch.ones(rows, device=bench.device) * 2.5,
    )


def sampling_inputs(bench: Bench, rows: int, vocabulary: int) -> tuple[Tensor, SamplingRows, Tensor]:
    """Logits, parameters with every filter on, and which tokens the masks allow."""
    words = math.ceil(vocabulary / 32)
    allowed = torch.rand(rows, words * 32, device=bench.device, generator=bench.generator) < 0.5
    bits = (allowed.view(rows, words, 32).long() << torch.arange(32, device=bench.device)).sum(-1)
    ones = torch.ones(rows, device=bench.device)
    sampling = SamplingRows(
        temperature=ones * 0.8,
        top_k=torch.full((rows,), 50, device=bench.device),
        top_p=ones * 0.9,
        min_p=ones * 0.01,
        seeds=torch.arange(rows, device=bench.device),
        positions=torch.arange(rows, device=bench.device) * 7,
        masks=torch.where(bits >= 2**31, bits - 2**32, bits).to(torch.int32),
    )
    return bench.normal(rows, vocabulary) * 3, sampling, allowed[:, :vocabulary]
