"""Blocks of quantized weights as numbers, bit for bit those of the `gguf` package."""

from __future__ import annotations

import gguf
import numpy as np
import pytest
import torch

from sgrt_kernels.gguf_blocks import BLOCK_TYPES, dequantized


def random_blocks(type_name: str, rows: int, blocks: int) -> np.ndarray:
    """Any bytes but for the half-precision scales, which are numbers."""
    block_bytes, _, _ = BLOCK_TYPES[type_name]
    generator = np.random.default_rng(0)
    data = generator.integers(0, 256, (rows, blocks, block_bytes), dtype=np.uint8)
    halves = {"Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
    for at in halves.get(type_name, (0,)):
        scales = generator.normal(size=(rows, blocks, 1)).astype(np.float16)
        data[:, :, at : at + 2] = scales.view(np.uint8)
    return data.reshape(rows, -1)


@pytest.mark.parametrize("type_name", BLOCK_TYPES)
def test_the_numbers_are_those_of_the_gguf_package(type_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_blocks(type_name, 7, 3)
    expected = gguf.dequantize(data, gguf.GGMLQuantizationType[type_name])
    assert np.array_equal(dequantized(type_name, torch.from_numpy(data)).numpy(), expected)
    monkeypatch.setattr("sgrt_kernels.gguf_blocks._ROWS_BYTES", 2 * data.shape[1])  # a few rows at a time
    assert np.array_equal(dequantized(type_name, torch.from_numpy(data)).numpy(), expected)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no blocks of type IQ2_XXS; known are Q4_0"):
        dequantized("IQ2_XXS", torch.zeros(1, 66, dtype=torch.uint8))
