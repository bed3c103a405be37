"""The native decoder agrees with torch on every family and type, and its numbers do not depend on the schedule."""

from __future__ import annotations

import shutil
from array import array
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
from torch import Tensor

from sgrt.checkpoint.opening import open_checkpoint
from sgrt.model.native_decoder import DecoderUnsupported, NativeDecoder
from sgrt.model.native_step import StepNumbers
from sgrt.model.packed_decoder import PackedDecoder
from sgrt.model.registry import load_model
from sgrt_kernels.layout import PageShape, exact_layer
from sgrt_kernels.ops.masked_sample import SamplingRows, masked_sample

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on the PATH")

PROMPT = [(7 * index * index + 3) % 264 for index in range(90)]
FOLDER_ONLY = ("qwen2-window", "gemma3-scaled")  # what they configure has no place in a GGUF file
EXACT_DTYPES = [torch.float32, torch.bfloat16, torch.int16]
TYPES = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]  # that the `gguf` package can write


def wide(name: str) -> TinyModel:
    """A tiny model with heads as wide as the kernels need, in float32."""
    model = TINY_MODELS[name]
    return replace(model, config=MappingProxyType({**model.config, "head_dim": 32}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@cache
def quantized(folder: Path, type_name: str) -> Path:
    return write_gguf(wide("qwen3"), folder / f"qwen3-{type_name}.gguf", GGMLQuantizationType[type_name])


def native(path: Path, threads: int = 2) -> NativeDecoder:
    checkpoint = open_checkpoint(path)
    return NativeDecoder(checkpoint.config, checkpoint, threads=threads)


def whole(model: NativeDecoder | PackedDecoder, dtype: torch.dtype = torch.float32) -> Tensor:
    return PagedHarness(model, pages=40, dtype=dtype).whole(0, PROMPT)


@pytest.mark.parametrize("name", TINY_MODELS)
def test_float_weights_give_torchs_logits(folder: Path, name: str) -> None:
    path = write_folder(wide(name), folder / name)
    with native(path) as decoder:
        result = whole(decoder)
    checkpoint = open_checkpoint(path)
    expected = load_model(checkpoint, compute_dtype=torch.float32, device=torch.device("cpu"))
    torch.testing.assert_close(
        result, PagedHarness(expected, pages=40).whole(0, PROMPT), atol=2e-3, rtol=1e-3
    )


@pytest.mark.parametrize("type_name", TYPES)
def test_quantized_weights_give_the_twins_bits(folder: Path, type_name: str) -> None:
    path = quantized(folder, type_name)
    checkpoint = open_checkpoint(path)
    expected = whole(PackedDecoder(checkpoint.config, checkpoint))
    with native(path) as decoder:
        assert torch.equal(whole(decoder), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16], ids=str)
@pytest.mark.parametrize("name", [name for name in TINY_MODELS if name not in FOLDER_ONLY])
def test_every_family_gives_the_twins_bits(folder: Path, name: str, dtype: torch.dtype) -> None:
    path = write_gguf(wide(name), folder / f"{name}-twin.gguf", GGMLQuantizationType.Q4_1)
    checkpoint = open_checkpoint(path)
    expected = whole(PackedDecoder(checkpoint.config, checkpoint), dtype)
    with native(path) as decoder:
        assert torch.equal(whole(decoder, dtype), expected)


@pytest.mark.parametrize("dtype", EXACT_DTYPES, ids=str)
def test_threads_change_nothing(folder: Path, dtype: torch.dtype) -> None:
    path = quantized(folder, "Q4_1")
    results = []
    for threads in (1, 2, 3):
        with native(path, threads) as decoder:
            results.append(whole(decoder, dtype))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


@cache
def shared_decoder(path: Path) -> NativeDecoder:
    return native(path)


@cache
def shared_twin(path: Path) -> PackedDecoder:
    checkpoint = open_checkpoint(path)
    return PackedDecoder(checkpoint.config, checkpoint)


@settings(max_examples=25)
@given(data=st.data(), type_name=st.sampled_from(["Q4_1", "Q8_0"]), dtype=st.sampled_from(EXACT_DTYPES))
def test_any_schedule_gives_the_same_bits(
    folder: Path, data: st.DataObject, type_name: str, dtype: torch.dtype
) -> None:
    """Cold and warm, alone and batched, in any chunks: a token's logits are the same bits."""
    decoder = shared_decoder(quantized(folder, type_name))
    texts = [PROMPT[: data.draw(st.integers(1, 90))], PROMPT[5 : data.draw(st.integers(6, 90))], PROMPT[::-1]]
    harness = PagedHarness(decoder, pages=120, dtype=dtype)
    alone = [harness.whole(index, text) for index, text in enumerate(texts)]
    together = PagedHarness(decoder, pages=120, dtype=dtype)
    for expected, got in zip(alone, together.in_any_chunks(data, texts), strict=True):
        assert torch.equal(expected, got)


@pytest.mark.parametrize("dtype", EXACT_DTYPES, ids=str)
@pytest.mark.parametrize("name", ["gemma3", "mistral"])
def test_windows_and_post_norms_do_not_depend_on_chunks(folder: Path, name: str, dtype: torch.dtype) -> None:
    with native(write_gguf(wide(name), folder / f"{name}.gguf", GGMLQuantizationType.Q8_0)) as decoder:
        expected = whole(decoder, dtype)
        harness = PagedHarness(decoder, pages=40, dtype=dtype)
        chunks = [PROMPT[:1], PROMPT[1:2], PROMPT[2:30], PROMPT[30:33], PROMPT[33:]]
        assert torch.equal(expected, torch.cat([harness.step([(0, chunk)])[0] for chunk in chunks]))


@settings(max_examples=15)
@given(data=st.data(), dtype=st.sampled_from(EXACT_DTYPES))
def test_the_twin_gives_the_same_bits_in_any_schedule(
    folder: Path, data: st.DataObject, dtype: torch.dtype
) -> None:
    path = quantized(folder, "Q4_1")
    texts = [PROMPT[: data.draw(st.integers(1, 40))], PROMPT[30 : data.draw(st.integers(31, 70))]]
    harness = PagedHarness(shared_decoder(path), pages=60, dtype=dtype)
    expected = [harness.whole(index, text) for index, text in enumerate(texts)]
    together = PagedHarness(shared_twin(path), pages=60, dtype=dtype)
    for ours, theirs in zip(together.in_any_chunks(data, texts), expected, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", EXACT_DTYPES, ids=str)
def test_long_contexts_cross_spans_in_any_chunks(folder: Path, dtype: torch.dtype) -> None:
    decoder = shared_decoder(quantized(folder, "Q4_1"))
    text = [(11 * index + index * index) % 264 for index in range(420)]
    expected = PagedHarness(decoder, pages=160, dtype=dtype).whole(0, text)
    harness = PagedHarness(decoder, pages=160, dtype=dtype)
    chunks = [text[:250], text[250:255], text[255:256], text[256:257], text[257:400], text[400:]]
    assert torch.equal(expected, torch.cat([harness.step([(0, chunk)])[0] for chunk in chunks]))


@pytest.mark.parametrize("candidates", [1, 100, 288])
def test_a_step_finds_its_largest_logits(folder: Path, candidates: int) -> None:
    decoder = shared_decoder(quantized(folder, "Q4_1"))
    config = decoder.config
    shape = PageShape(page_tokens=16, kv_heads=config.kv_heads, head_dim=config.head_dim)
    layers = tuple(exact_layer(1, shape, dtype=torch.float32, device="cpu") for _ in config.layers)
    places = list(range(9))
    numbers = StepNumbers(
        token_ids=PROMPT[:9],
        positions=places,
        slots=places,
        logit_rows=places,
        query_starts=[0, 9],
        context_lengths=[9],
        page_tables=[[0]],
    )
    logits, largest = torch.empty(9, config.vocabulary), array("q", bytes(72))
    decoder.compute(numbers, layers, logits, largest=largest, candidates=candidates)
    expected = masked_sample(logits[:, :candidates].contiguous(), SamplingRows())
    assert largest.tolist() == expected.tolist()


def test_a_closed_decoder_says_so(folder: Path) -> None:
    decoder = native(quantized(folder, "Q8_0"))
    decoder.close()
    decoder.close()
    with pytest.raises(RuntimeError, match="closed"):
        whole(decoder)


def test_pages_of_another_type_are_refused(folder: Path) -> None:
    with native(quantized(folder, "Q8_0")) as decoder, pytest.raises(DecoderUnsupported, match="float16"):
        whole(decoder, torch.float16)


def test_sizes_without_a_kernel_are_refused(folder: Path) -> None:
    path = write_folder(TINY_MODELS["llama"], folder / "narrow")
    with pytest.raises(DecoderUnsupported, match="head_dim is 16"):
        native(path)


def test_a_token_outside_the_vocabulary_is_refused(folder: Path) -> None:
    with native(quantized(folder, "Q8_0")) as decoder, pytest.raises(ValueError, match="vocabulary of 288"):
        PagedHarness(decoder, pages=40).whole(0, [5, 288])
