"""Models teacher-forced on the device and on the CPU: close logits, equal choices where they are clear."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import torch
from torch import Tensor

from gpu_parts.bench import Bench
from gpu_parts.executor import Executor
from gpu_parts.model_configs import small_models
from sgrt.model.model import Model
from sgrt.model.random_weights import RandomWeights
from sgrt.model.registry import load_model
from sgrt.model.weights import WeightSource
from sgrt_kernels.device import KernelBackend, kernels_on

FP8 = torch.float8_e4m3fn
_CPU = torch.device("cpu")
# Of the standard deviation of the logits: bfloat16 rounds weights and activations, layer after layer.
_TOLERANCE = 0.05


@torch.inference_mode()
def compare_with_cpu(bench: Bench) -> dict[str, object]:
    """Random models of every family, over exact and FP8 pages, and SmolLM2 where its file is at hand."""
    errors: dict[str, object] = {}
    for name, config in bench.cases(list(small_models(is_dry=bench.is_dry).items())):

        def source(config=config) -> WeightSource:  # type: ignore[no-untyped-def]  # noqa: ANN001  # binds the loop's value
            return RandomWeights(config, seed=bench.seed)

        for sealed in (FP8,) if bench.is_dry and name != "llama" else (None, FP8):
            label = f"{name}, {'fp8' if sealed else 'exact'} cache"
            errors[label] = _compare(bench, label, source, sealed)
    errors["SmolLM2"] = _smollm2(bench)
    return errors


def _compare(
    bench: Bench, name: str, source: Callable[[], WeightSource], sealed: torch.dtype | None
) -> float:
    """The reference in float32 on the CPU, over pages of the same dtype, against the device's bfloat16."""
    weights = source()
    generator = torch.Generator().manual_seed(bench.seed)
    prompt, decoded = bench.pick((150, 40), (37, 3))
    tokens = torch.randint(0, weights.config.vocabulary, (2, prompt + decoded), generator=generator).tolist()
    with kernels_on(KernelBackend.REFERENCE):
        exact = load_model(weights, compute_dtype=torch.float32, device=_CPU)
        expected = _forced(exact, tokens, prompt, torch.float32, sealed, _CPU, has_graphs=False)
    model = load_model(source(), compute_dtype=torch.bfloat16, device=bench.device)
    result = _forced(model, tokens, prompt, torch.bfloat16, sealed, bench.device, has_graphs=True)
    tolerance = _TOLERANCE * float(expected.std())
    gaps = expected.topk(2).values
    is_clear = gaps[:, 0] - gaps[:, 1] > 4 * tolerance
    agrees = (expected.argmax(-1) == result.argmax(-1)) | ~is_clear
    error = float((result - expected).square().mean().sqrt())
    bench.check(f"{name}: logits against the CPU", error, tolerance)
    assert bool(agrees.all()), f"{name}: another most probable token where the choice is clear"
    return error


def _forced(
    model: Model,
    tokens: list[list[int]],
    prompt: int,
    dtype: torch.dtype,
    sealed: torch.dtype | None,
    device: torch.device,
    *,
    has_graphs: bool,
) -> Tensor:
    """Logits of every position: a prompt in one pass and in two, then token by token. On the CPU, float32."""
    executor = Executor(
        model,
        sequences=len(tokens),
        tokens_each=len(tokens[0]),
        dtype=dtype,
        sealed=sealed,
        device=device,
        has_graphs=has_graphs,
    )
    first, second = tokens[0][:prompt], tokens[1][:prompt]
    half = prompt // 2
    steps = [[first, second[:half]], [[], second[half:]]]
    steps += [[[text[at]] for text in tokens] for at in range(prompt, len(tokens[0]))]
    return torch.cat(
        [executor.run(step).to("cpu", copy=True) for step in steps]
    )  # the next run overwrites them


def _smollm2(bench: Bench) -> float | str:
    """The real model, if it was pulled and the readers of its file are installed."""
    if bench.is_dry or bench.is_compiling:
        return "not run"
    try:
        opening = importlib.import_module("sgrt.checkpoint.opening")
        errors = importlib.import_module("sgrt.errors")
        return _compare(bench, "SmolLM2-135M", lambda: opening.open_checkpoint("smollm2"), None)
    except ImportError as error:
        reason = f"{error.name} is not installed"
    except errors.ModelError:
        reason = "its file is not at hand (sgrt pull smollm2)"
    bench.add("SmolLM2-135M", "ok", f"left out: {reason}")
    return reason
