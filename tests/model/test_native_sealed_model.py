"""The native decoder over sealed pages agrees with torch, and its numbers do not depend on the schedule."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType

import pytest
import torch
from gguf import GGMLQuantizationType
from hypothesis import given, settings
from hypothesis import strategies as st
from paged_harness import PagedHarness
from tiny_models import TINY_MODELS, TinyModel, write_folder, write_gguf

from sgrt.checkpoint.opening import open_checkpoint
from sgrt.model.native_decoder import NativeDecoder
from sgrt.model.packed_decoder import PackedDecoder
from sgrt.model.registry import load_model
from sgrt_kernels.integer_pages import TILE_TOKENS
from sgrt_kernels.layout import SEALED_DTYPES

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on the PATH")

TEXT = [(7 * index * index + 3) % 264 for index in range(110)]
DTYPES = pytest.mark.parametrize("sealed_dtype", SEALED_DTYPES, ids=str)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def wide(name: str, *, head_dim: int = 32) -> TinyModel:
    model = TINY_MODELS[name]
    return replace(model, config=MappingProxyType({**model.config, "head_dim": head_dim}))


@DTYPES
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3", "gemma3", "mistral"])
def test_float_weights_give_torchs_logits(folder: Path, name: str, sealed_dtype: torch.dtype) -> None:
    checkpoint = open_checkpoint(write_folder(wide(name), folder / f"{name}-{sealed_dtype}"))
    torch_model = load_model(checkpoint, compute_dtype=torch.float32, device=torch.device("cpu"))
    expected = PagedHarness(torch_model, pages=30, page_tokens=8, sealed_dtype=sealed_dtype).whole(0, TEXT)
    with NativeDecoder(checkpoint.config, checkpoint, threads=2) as decoder:
        result = PagedHarness(decoder, pages=30, page_tokens=8, sealed_dtype=sealed_dtype).whole(0, TEXT)
    # A last bit tips a rounding to a code now and then: one step of 127 in one element of a page.
    assert float((result - expected).norm() / expected.norm()) < 1e-2


@DTYPES
def test_the_definition_in_torch_reads_sealed_pages_too(folder: Path, sealed_dtype: torch.dtype) -> None:
    path = write_gguf(wide("qwen3"), folder / f"defined-{sealed_dtype}.gguf", GGMLQuantizationType.Q8_0)
    checkpoint = open_checkpoint(path)
    packed = PackedDecoder(checkpoint.config, checkpoint)
    expected = PagedHarness(packed, pages=30, page_tokens=8, sealed_dtype=sealed_dtype).whole(0, TEXT)
    with NativeDecoder(checkpoint.config, checkpoint, threads=2) as decoder:
        result = PagedHarness(decoder, pages=30, page_tokens=8, sealed_dtype=sealed_dtype).whole(0, TEXT)
    assert float((result - expected).norm() / expected.norm()) < 3e-2


@cache
def shared_decoder(folder: Path) -> NativeDecoder:
    path = write_gguf(wide("qwen3", head_dim=64), folder / "shared.gguf", GGMLQuantizationType.Q4_1)
    checkpoint = open_checkpoint(path)
    return NativeDecoder(checkpoint.config, checkpoint, threads=2)


@settings(max_examples=20, deadline=None)
@given(
    data=st.data(),
    sealed_dtype=st.sampled_from(SEALED_DTYPES),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.int16]),
    page_tokens=st.sampled_from([8, 16, 32]),
)
def test_any_schedule_gives_the_same_bits(
    folder: Path, data: st.DataObject, sealed_dtype: torch.dtype, dtype: torch.dtype, page_tokens: int
) -> None:
    """Alone and batched, in any chunks: a token's logits are the same bits."""
    decoder = shared_decoder(folder)
    if dtype == torch.int16:
        page_tokens = max(page_tokens, TILE_TOKENS)

    def harness() -> PagedHarness:
        return PagedHarness(
            decoder, pages=60, page_tokens=page_tokens, dtype=dtype, sealed_dtype=sealed_dtype
        )

    texts = [TEXT[: data.draw(st.integers(1, 110))], TEXT[5 : data.draw(st.integers(6, 110))]]
    alone = [harness().whole(index, text) for index, text in enumerate(texts)]
    together = harness()
    for expected, got in zip(alone, together.in_any_chunks(data, texts), strict=True):
        assert torch.equal(expected, got)
