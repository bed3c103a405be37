"""Whole models: decode steps in CUDA graphs against their byte floor, and small models against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from gpu_parts.bench import Bench
from sgrt.model.batch import Batch
from sgrt.model.config import LayerConfig, ModelConfig, Rope
from sgrt.model.decoder import Decoder
from sgrt.model.registry import load_model
from sgrt_kernels.activation import Activation
from sgrt_kernels.layout import PagedLayer, PageSeals, PageShape, exact_layer, sealed_pages

PAGE = 32
FP8 = torch.float8_e4m3fn


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomWeights:
    """A source of seeded random weights for any configuration."""

    config: ModelConfig
    device: torch.device
    dtype: torch.dtype
    seed: int = 0
    generator: torch.Generator = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "generator", torch.Generator(self.device).manual_seed(self.seed))

    def names(self) -> frozenset[str]:
        """The optional tensors of the family; required ones are made when asked for."""
        if self.config.architecture != "gemma3":
            return frozenset()
        parts = ("post_attention_norm", "post_mlp_norm")
        return frozenset(
            f"layers.{i}.{part}.weight" for i in range(len(self.config.layers)) for part in parts
        )

    def tensor(self, name: str) -> Tensor:
        """Random numbers of the size and spread that a trained tensor would have."""
        shape = self._shape(name.removesuffix(".weight").removesuffix(".bias").rsplit(".", 1)[-1])
        values = torch.randn(shape, device=self.device, generator=self.generator)
        if "norm" in name:
            return 1 + 0.1 * values
        scaled: Tensor = (values / float(shape[-1]) ** 0.5).to(self.dtype)
        return scaled

    def _shape(self, part: str) -> tuple[int, ...]:
        config = self.config
        shapes: dict[str, tuple[int, ...]] = {
            "embedding": (config.vocabulary, config.hidden),
            "output": (config.vocabulary, config.hidden),
            "query": (config.query_width, config.hidden),
            "key": (config.kv_width, config.hidden),
            "value": (config.kv_width, config.hidden),
            "attention_output": (config.hidden, config.query_width),
            "gate": (config.intermediate, config.hidden),
            "up": (config.intermediate, config.hidden),
            "down": (config.hidden, config.intermediate),
            "query_norm": (config.head_dim,),
            "key_norm": (config.head_dim,),
        }
        return shapes.get(part, (config.hidden,))


def llama(
    *, layers: int, hidden: int, heads: int, kv_heads: int, head_dim: int, intermediate: int, vocabulary: int
) -> ModelConfig:
    """A Llama of these sizes."""
    return ModelConfig(
        architecture="llama",
        layers=(LayerConfig(rope=Rope(theta=5e5)),) * layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        intermediate=intermediate,
        vocabulary=vocabulary,
        context=131_072,
        norm_epsilon=1e-5,
        activation=Activation.SILU,
        tied_embeddings=False,
    )  # fmt: skip


def small_models() -> dict[str, ModelConfig]:
    """A Llama, a Qwen3 and a Gemma 3, small, each with what its family adds."""
    plain = llama(layers=3, heads=4, kv_heads=2, head_dim=64, hidden=256, intermediate=512, vocabulary=1000)
    rope = Rope(theta=1e4)
    normed = replace(plain, context=4096, norm_epsilon=1e-6, tied_embeddings=True, qk_norm=True)
    return {
        "llama": plain,
        "qwen3": replace(normed, architecture="qwen3", layers=(LayerConfig(rope=rope),) * 3),
        "gemma3": replace(
            normed,
            architecture="gemma3",
            layers=(LayerConfig(rope=rope, window=48), LayerConfig(rope=Rope(theta=1e6)), LayerConfig(rope=rope, window=48)),
            activation=Activation.GELU_TANH,
            embedding_scale=16.0,
        ),
    }  # fmt: skip


def make_batch(
    config: ModelConfig,
    token_ids: Tensor,
    lengths: list[int],
    *,
    sealed: torch.dtype | None,
    dtype: torch.dtype,
) -> Batch:
    """The last tokens of contexts of `lengths`: as many of each as `token_ids` has for it, over pages in order."""
    device, sequences = token_ids.device, len(lengths)
    rows = len(token_ids) // sequences
    pages_each = -(-max(lengths) // PAGE)
    pages = sequences * pages_each
    shape = PageShape(page_tokens=PAGE, kv_heads=config.kv_heads, head_dim=config.head_dim)
    positions = torch.cat([torch.arange(length - rows, length, device=device) for length in lengths])
    sequence = torch.arange(sequences, device=device).repeat_interleave(rows)
    table = torch.arange(pages, dtype=torch.int32, device=device).view(sequences, pages_each)
    # exact pages hold the chunk alone
    own_each = max((length - 1) // PAGE - (length - rows) // PAGE + 1 for length in lengths)
    firsts = torch.tensor([(length - rows) // PAGE for length in lengths], device=device)
    own = torch.arange(sequences * own_each, dtype=torch.int32, device=device).view(sequences, own_each)
    seals = None
    page = table[sequence, positions // PAGE].long()
    if sealed is not None:
        page = own[sequence, positions // PAGE - firsts[sequence]].long()
        filled = [
            (int(own[i, index - int(firsts[i])]), int(table[i, index]))
            for i, length in enumerate(lengths)
            for index in range((length - rows) // PAGE, length // PAGE)
        ]
        pairs = torch.tensor(filled, dtype=torch.int64, device=device).view(-1, 2)
        seals = PageSeals(sources=pairs[:, 0].contiguous(), targets=pairs[:, 1].contiguous(), own_pages=own)

    def layer() -> PagedLayer:
        if sealed is None:
            return exact_layer(pages, shape, dtype=dtype, device=device)
        exact = exact_layer(own.numel(), shape, dtype=dtype, device=device)
        full = sealed_pages(
            pages, shape, dtype=sealed, device=device, transposed_values=device.type == "cuda"
        )
        return PagedLayer(keys=exact.keys, values=exact.values, sealed=full)

    return Batch(
        token_ids=token_ids,
        positions=positions,
        slots=page * PAGE + positions % PAGE,
        query_starts=torch.arange(0, len(token_ids) + 1, rows, dtype=torch.int32, device=device),
        context_lengths=torch.tensor(lengths, dtype=torch.int32, device=device),
        page_table=table,
        logit_rows=torch.arange(rows - 1, len(token_ids), rows, device=device),
        layers=tuple(layer() for _ in config.layers),
        seals=seals,
    )


def _step_bytes(config: ModelConfig, batch: int, length: int, sealed: torch.dtype | None) -> float:
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


@torch.inference_mode()
def time_decode_steps(bench: Bench) -> dict[str, object]:
    """Whole decode steps of an 8B-shaped Llama with random weights, one CUDA graph each."""
    config = bench.pick(
        llama(
            layers=32, hidden=4096, heads=32, kv_heads=8, head_dim=128, intermediate=14336, vocabulary=128_256
        ),
        llama(layers=1, hidden=64, heads=2, kv_heads=1, head_dim=32, intermediate=96, vocabulary=200),
    )
    weights = RandomWeights(config=config, device=bench.device, dtype=torch.bfloat16, seed=bench.seed)
    model = load_model(weights, compute_dtype=torch.bfloat16, device=bench.device)
    shares: dict[str, object] = {}
    for size, length in bench.pick([(1, 4096), (16, 4096), (64, 4096), (128, 2048)], [(2, 40)]):
        for sealed in (None, FP8):
            token_ids = torch.randint(
                0, config.vocabulary, (size,), device=bench.device, generator=bench.generator
            )
            batch = make_batch(config, token_ids, [length - 1] * size, sealed=sealed, dtype=torch.bfloat16)
            seconds = bench.seconds(_stepping(model, batch))
            share = _step_bytes(config, size, length, sealed) / bench.copy_bytes_per_s / seconds
            name = f"step batch {size} context {length} {'fp8' if sealed else 'bfloat16'} cache"
            bench.add(
                name,
                f"{seconds * 1e3:.2f} ms",
                f"{share:.0%} of its byte floor, {size / seconds:.0f} tokens/s",
            )
            shares[name] = {"share": share, "seconds": seconds}
            del batch
    return shares


def _stepping(model: Decoder, batch: Batch) -> Callable[[int], object]:
    def step(_: int) -> None:
        batch.token_ids.copy_(model.forward(batch).argmax(-1))

    return step


@torch.inference_mode()
def compare_with_cpu(bench: Bench) -> dict[str, object]:
    """Small models teacher-forced on the device and on the CPU: close logits, equal choices where they are clear."""
    errors: dict[str, object] = {}
    for name, config in small_models().items():
        on_cpu = RandomWeights(
            config=config, device=torch.device("cpu"), dtype=torch.float32, seed=bench.seed
        )
        reference = load_model(on_cpu, compute_dtype=torch.float32, device=torch.device("cpu"))
        again = RandomWeights(config=config, device=torch.device("cpu"), dtype=torch.float32, seed=bench.seed)
        model = load_model(again, compute_dtype=torch.bfloat16, device=bench.device)
        generator = torch.Generator().manual_seed(bench.seed)
        token_ids = torch.randint(0, config.vocabulary, (150,), generator=generator)
        expected = _all_logits(reference, config, token_ids, torch.float32)
        result = _all_logits(model, config, token_ids.to(bench.device), torch.bfloat16).cpu()
        # bfloat16 rounds weights and activations of three layers
        tolerance = 0.05 * float(expected.std())
        gaps = expected.topk(2).values
        is_clear = gaps[:, 0] - gaps[:, 1] > 4 * tolerance
        agrees = (expected.argmax(-1) == result.argmax(-1)) | ~is_clear
        error = float((result - expected).square().mean().sqrt())
        bench.check(f"{name}: logits against the CPU", error, tolerance)
        assert bool(agrees.all()), f"{name}: another most probable token where the choice is clear"
        errors[name] = error
    return errors


def _all_logits(model: Decoder, config: ModelConfig, token_ids: Tensor, dtype: torch.dtype) -> Tensor:
    batch = make_batch(config, token_ids, [len(token_ids)], sealed=None, dtype=dtype)
    every = Batch(
        token_ids=batch.token_ids,
        positions=batch.positions,
        slots=batch.slots,
        query_starts=batch.query_starts,
        context_lengths=batch.context_lengths,
        page_table=batch.page_table,
        logit_rows=torch.arange(len(token_ids), device=token_ids.device),
        layers=batch.layers,
    )
    return model.forward(every)
