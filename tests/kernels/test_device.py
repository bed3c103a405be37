"""Devices: what may be named, and that nothing of CUDA is touched where there is none."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sgrt_kernels.device import (
    KernelBackend,
    UnsupportedDeviceError,
    finish,
    graph_capture,
    kernel_backend,
    kernels_on,
    staging,
    upload,
    usable_device,
)

ROOT = Path(__file__).resolve().parents[2]
CPU = torch.device("cpu")
without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")

RUN_ON_A_CPU = """
import sys
import torch
from random_models import CONFIGS, random_model
from sgrt.cache.pool import KVPool, PoolShape
from sgrt.engine.plan import Plan, Span
from sgrt.engine.runner import ModelRunner
from sgrt_kernels.ops.masked_sample import SamplingRows, masked_sample

config = CONFIGS["gemma3"]
shape = PoolShape(
    num_layers=2, num_pages=4, page_tokens=4, kv_heads=config.kv_heads, head_dim=config.head_dim, num_tail_pages=4
)
pool = KVPool(shape, dtype=torch.float32, sealed_dtype=torch.int8)
runner = ModelRunner(random_model("gemma3"), pool, vocabulary_tokens=config.vocabulary)
span = Span(tokens=[1, 2, 3, 4, 5], start=0, pages=[0, 1], own_pages=[4, 5], logits_from=4, prompt_tokens=5)
masked_sample(runner.run(Plan(spans=(span,))), SamplingRows()).tolist()
print(*(name for name in sys.modules if name.split(".")[0] in ("sgrt", "sgrt_kernels", "triton", "gguf", "tokenizers")))
"""


def test_a_model_on_a_cpu_imports_neither_cuda_nor_triton_nor_readers_of_files() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT / "tests" / "support")])}
    done = subprocess.run(
        [sys.executable, "-c", RUN_ON_A_CPU], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    loaded = set(done.stdout.split())
    assert "sgrt_kernels.device" in loaded
    assert not loaded & {"sgrt_kernels.cuda", "triton", "gguf", "tokenizers", "sgrt.checkpoint"}


def test_calls_into_cuda_lie_in_one_module() -> None:
    """The device module may ask whether there is a GPU; all else is behind it."""
    allowed = {
        "kernels/sgrt_kernels/cuda.py": r".*",
        "kernels/sgrt_kernels/device.py": r"is_available|device_count",
    }
    for folder in ("kernels", "sgrt", "frontend", "grammars"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            pattern = allowed.get(str(path.relative_to(ROOT)), r"\b\B")
            for call in re.findall(r"torch\.cuda\.(\w+)|pin_memory", path.read_text(encoding="utf-8")):
                assert re.fullmatch(pattern, call), f"{path.relative_to(ROOT)}: torch.cuda.{call}"


@without_gpu
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(
        UnsupportedDeviceError, match=rf"'{name}' is not there.*finds no GPU.*use 'cpu', or install"
    ):
        usable_device(name)


@pytest.mark.parametrize("name", ["gpu", "", "cuda:x"])
def test_what_names_no_device_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedDeviceError, match="names no device; use 'cpu', 'cuda' or 'cuda:N'"):
        usable_device(name)


def test_devices_without_kernels_are_refused() -> None:
    with pytest.raises(UnsupportedDeviceError, match="no kernels for 'mps'"):
        usable_device("mps")
    with pytest.raises(UnsupportedDeviceError, match="no kernels for device 'meta'"):
        kernel_backend(torch.empty(1, device="meta"))


def test_the_cpu_is_always_there() -> None:
    assert usable_device("cpu") == CPU


def test_a_backend_can_be_asked_for_and_is_given_back() -> None:
    there = torch.zeros(1)
    with kernels_on(KernelBackend.TRITON):
        assert kernel_backend(there) is KernelBackend.TRITON
        with kernels_on(KernelBackend.REFERENCE):
            assert kernel_backend(there) is KernelBackend.REFERENCE
        assert kernel_backend(there) is KernelBackend.TRITON
    assert kernel_backend(there) is KernelBackend.REFERENCE


def test_on_a_cpu_nothing_is_copied_recorded_or_waited_for() -> None:
    memory = staging((2, 3), torch.int32, CPU)
    assert upload(memory, CPU) is memory
    assert graph_capture(CPU) is None
    finish(CPU)
