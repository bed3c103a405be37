"""Products with packed weights: blocks taken apart as ggml does, the kernels bit for bit like the torch definition."""

from __future__ import annotations

import ctypes
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from packed_blocks import BLOCKS, random_blocks
from torch import Tensor

from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.weights import MatrixShape, ThreadTeam, WeightArena
from sgrt_kernels.ops.packed_linear import packed_linear
from sgrt_kernels.ops.packed_linear.packed_weight import take_apart

VARIANTS = {"chosen": (), "avx2": ("-DSGRT_AVX2",), "portable": ("-DSGRT_PORTABLE",)}

pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler on the PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """One variant of the kernels with a team of threads."""

    library: ctypes.CDLL
    team: ThreadTeam

    def multiply(self, x: Tensor, type_name: str, blocks: NDArray[np.uint8], columns: int) -> Tensor:
        arena = WeightArena(self.library, self.team)
        arena.reserve("w", MatrixShape(type_name=type_name, rows=blocks.shape[0], columns=columns))
        arena.allocate()
        arena.pack("w", blocks)
        out = torch.full((x.shape[0], blocks.shape[0]), torch.nan)
        matrix = arena.matrix("w")
        assert self.library.sgrt_multiply(
            self.team.handle, ctypes.byref(matrix), x.data_ptr(), x.shape[0], out.data_ptr()
        )
        arena.close()
        return out


@pytest.fixture(scope="module", params=VARIANTS)
def variant(request: pytest.FixtureRequest) -> Iterator[Kernels]:
    library = kernels(VARIANTS[request.param])
    with ThreadTeam(library, 2) as team:
        yield Kernels(library=library, team=team)


@pytest.fixture(scope="module")
def chosen() -> Iterator[Kernels]:
    library = kernels()
    with ThreadTeam(library, 2) as team:
        yield Kernels(library=library, team=team)


def activations(tokens: int, columns: int, seed: int = 0) -> Tensor:
    return torch.randn(tokens, columns, generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize("type_name", BLOCKS)
def test_blocks_mean_what_ggml_says(type_name: str) -> None:
    blocks = random_blocks(type_name, 5, 512)
    expected = gguf.dequantize(blocks, gguf.GGMLQuantizationType[type_name])
    assert np.array_equal(take_apart(type_name, blocks).dequantized().numpy(), expected)


@pytest.mark.parametrize("type_name", BLOCKS)
def test_the_definition_is_close_to_the_float_product(type_name: str) -> None:
    weight = take_apart(type_name, random_blocks(type_name, 24, 256))
    x = activations(3, 256)
    exact = x.double() @ weight.dequantized().double().T
    error = (packed_linear(x, weight) - exact).norm() / exact.norm()
    assert float(error) < 0.01


@pytest.mark.parametrize("type_name", BLOCKS)
@pytest.mark.parametrize("tokens", [1, 2, 7, 16, 33])
def test_kernels_compute_the_definition_bit_for_bit(variant: Kernels, type_name: str, tokens: int) -> None:
    blocks = random_blocks(type_name, 48, 512)
    x = activations(tokens, 512)
    result = variant.multiply(x, type_name, blocks, 512)
    assert torch.equal(result, packed_linear(x, take_apart(type_name, blocks)))


@pytest.mark.parametrize("type_name", ["F32", "F16", "BF16"])
@pytest.mark.parametrize("tokens", [1, 5, 18])
def test_float_weights_are_multiplied_as_floats(variant: Kernels, type_name: str, tokens: int) -> None:
    dtype = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}[type_name]
    weight = activations(32, 96, seed=1).to(dtype)
    x = activations(tokens, 96)
    result = variant.multiply(x, type_name, weight.view(torch.uint8).numpy().reshape(32, -1), 96)
    torch.testing.assert_close(result.double(), x.double() @ weight.double().T, atol=1e-4, rtol=1e-5)


@given(tokens=st.integers(1, 40), start=st.integers(0, 39), type_name=st.sampled_from(list(BLOCKS)))
def test_a_row_does_not_depend_on_its_batch(chosen: Kernels, tokens: int, start: int, type_name: str) -> None:
    blocks = random_blocks(type_name, 16, 256)
    x = activations(40, 256)
    rows = slice(start, min(start + tokens, 40))
    alone = chosen.multiply(x[rows].contiguous(), type_name, blocks, 256)
    assert torch.equal(alone, chosen.multiply(x, type_name, blocks, 256)[rows])


def test_zeros_and_tiny_values_give_zeros(variant: Kernels) -> None:
    blocks = random_blocks("Q4_1", 16, 64)
    x = torch.zeros(2, 64)
    x[1] = 1e-33
    assert torch.equal(variant.multiply(x, "Q4_1", blocks, 64), torch.zeros(2, 16))


def test_rows_that_do_not_fill_a_tile_are_packed_with_zeros(chosen: Kernels) -> None:
    blocks = random_blocks("Q8_0", 21, 64)
    arena = WeightArena(chosen.library, chosen.team)
    arena.reserve("w", MatrixShape(type_name="Q8_0", rows=21, columns=64))
    arena.allocate()
    arena.pack("w", blocks)
    row = np.empty(64, dtype=np.float32)
    expected = take_apart("Q8_0", blocks).dequantized().numpy()
    matrix = arena.matrix("w")
    for index in range(21):
        chosen.library.sgrt_unpack_row(ctypes.byref(matrix), index, row.ctypes.data)
        assert np.array_equal(row, expected[index])
    arena.close()


@pytest.mark.parametrize("type_name", BLOCKS)
def test_rows_are_unpacked_as_ggml_does(variant: Kernels, type_name: str) -> None:
    blocks = random_blocks(type_name, 16, 256)
    arena = WeightArena(variant.library, variant.team)
    arena.reserve("w", MatrixShape(type_name=type_name, rows=16, columns=256))
    arena.allocate()
    arena.pack("w", blocks)
    row = np.empty(256, dtype=np.float32)
    matrix = arena.matrix("w")
    variant.library.sgrt_unpack_row(ctypes.byref(matrix), 11, row.ctypes.data)
    assert np.array_equal(row, gguf.dequantize(blocks, gguf.GGMLQuantizationType[type_name])[11])
    arena.close()


@pytest.mark.parametrize(("type_name", "columns"), [("Q3_K", 256), ("Q4_K", 128), ("Q8_0", 48)])
def test_what_has_no_kernel_is_refused(chosen: Kernels, type_name: str, columns: int) -> None:
    arena = WeightArena(chosen.library, chosen.team)
    with pytest.raises(ValueError, match=rf"no CPU kernel for {type_name} with {columns} columns"):
        arena.reserve("w", MatrixShape(type_name=type_name, rows=16, columns=columns))
