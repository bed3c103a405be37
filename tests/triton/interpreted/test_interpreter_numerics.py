"""The interpreter computes narrow types as a GPU does: against torch, which rounds to nearest even."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl
from torch import Tensor

FLOAT8 = pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)


@triton.jit
def cast_kernel(source, target, SIZE: tl.constexpr):
    index = tl.arange(0, SIZE)
    tl.store(target + index, tl.load(source + index).to(target.dtype.element_ty))


@triton.jit
def arithmetic_kernel(a, b, c, out, SIZE: tl.constexpr):
    index = tl.arange(0, SIZE)
    x, y, z = tl.load(a + index), tl.load(b + index), tl.load(c + index)
    tl.store(out + index, x * y + z)
    tl.store(out + SIZE + index, tl.maximum(-x, y))
    tl.store(out + 2 * SIZE + index, tl.where(x < y, x, y))
    tl.store(out + 3 * SIZE + index, tl.fma(x, y, z))
    tl.store(out + 4 * SIZE + index, tl.abs(x) - y)


@triton.jit
def reduction_kernel(a, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row, column = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    x = tl.load(a + row[:, None] * COLUMNS + column[None, :])
    tl.store(out + row, tl.sum(x, axis=1).to(tl.float32))
    tl.store(out + ROWS + row, tl.max(x, axis=1).to(tl.float32))
    tl.store(out + 2 * ROWS + row, tl.min(x, axis=1).to(tl.float32))


@triton.jit
def dot_kernel(a, b, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(out + m[:, None] * N + n[None, :], tl.dot(x, y))


@triton.jit
def loop_kernel(bound, out):
    total = tl.zeros((), tl.int32)
    for step in tl.range(0, tl.load(bound)):
        total += step
    tl.store(out, total)


def values(count: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator) * torch.exp(3 * torch.randn(count, generator=generator))


def cast(source: Tensor, dtype: torch.dtype) -> Tensor:
    target = torch.empty(source.shape, dtype=dtype)
    cast_kernel[(1,)](source, target, SIZE=source.numel())
    return target


def same(left: Tensor, right: Tensor) -> bool:
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def test_float32_rounds_to_bfloat16_by_nearest_even() -> None:
    source = values(4096)
    assert torch.equal(cast(source, torch.bfloat16), source.to(torch.bfloat16))


@FLOAT8
@pytest.mark.parametrize("source_dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_casts_to_float8_round_to_nearest_even_and_saturate(
    dtype: torch.dtype, source_dtype: torch.dtype
) -> None:
    limit = torch.finfo(dtype).max
    special = torch.tensor(
        [7.9, 1.998, 1000.0, -1000.0, 480.0, 448.0, 1e-9, 0.0, 2**-9, 2**-10, 3 * 2**-10, 57344.0]
    )
    source = torch.cat([values(4096 - len(special)), special]).to(source_dtype)
    expected = source.to(torch.float32).clamp(-limit, limit).to(dtype)
    assert torch.equal(cast(source, dtype).float(), expected.float())


@FLOAT8
def test_every_float8_code_reads_as_its_value(dtype: torch.dtype) -> None:
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    assert same(cast(codes, torch.float32), codes.to(torch.float32))
    assert same(cast(codes, torch.bfloat16).float(), codes.to(torch.bfloat16).float())


def test_infinity_saturates_and_nan_stays_nan() -> None:
    source = torch.tensor([float("inf"), -float("inf"), float("nan"), 1.0])
    assert same(cast(source, torch.float8_e4m3fn).float(), torch.tensor([448.0, -448.0, float("nan"), 1.0]))
    assert same(cast(source, torch.bfloat16).float(), source)


def test_bfloat16_arithmetic_computes_in_float32_and_rounds_once() -> None:
    a, b, c = (values(512, seed).to(torch.bfloat16) for seed in range(3))
    out = torch.full((5, 512), float("nan"), dtype=torch.bfloat16)
    arithmetic_kernel[(1,)](a, b, c, out, SIZE=512)
    expected = [
        a * b + c,
        torch.maximum(-a, b),
        torch.minimum(a, b),
        (a.float() * b.float() + c.float()).to(torch.bfloat16),
        a.abs() - b,
    ]
    for result, wanted in zip(out, expected, strict=True):
        assert torch.equal(result, wanted)


def test_bfloat16_reductions_sum_in_float32() -> None:
    a = values(16 * 64).view(16, 64).to(torch.bfloat16)
    out = torch.full((3, 16), float("nan"))
    reduction_kernel[(1,)](a, out, ROWS=16, COLUMNS=64)
    assert torch.allclose(out[0], a.float().sum(1), rtol=2**-8, atol=1e-2)
    assert torch.equal(out[1], a.float().amax(1))
    assert torch.equal(out[2], a.float().amin(1))


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float32], ids=str
)
def test_a_dot_accumulates_in_float32(dtype: torch.dtype) -> None:
    a, b = (
        values(16 * 32, 1).view(16, 32).clamp(-30, 30).to(dtype),
        torch.randn(32, 16).clamp(-30, 30).to(dtype),
    )
    out = torch.full((16, 16), float("nan"))
    dot_kernel[(1,)](a, b, out, M=16, N=16, K=32)
    expected = a.double() @ b.double()
    assert (out - expected).norm() / expected.norm() < 1e-6


def test_an_int8_dot_is_exact() -> None:
    a, b = (torch.randint(-127, 128, shape, dtype=torch.int8) for shape in ((16, 32), (32, 16)))
    out = torch.full((16, 16), -1, dtype=torch.int32)
    dot_kernel[(1,)](a, b, out, M=16, N=16, K=32)
    assert torch.equal(out.long(), a.long() @ b.long())


def test_a_loaded_number_bounds_a_loop() -> None:
    out = torch.full((1,), -1, dtype=torch.int32)
    loop_kernel[(1,)](torch.tensor([5], dtype=torch.int32), out)
    assert out.item() == 10


def test_an_autotuned_kernel_takes_its_first_configuration() -> None:
    out = torch.zeros(1, dtype=torch.int32)
    first_config_kernel[(1,)](out, 1)
    assert out.item() == 16


@triton.autotune(configs=[triton.Config({"SIZE": 16}), triton.Config({"SIZE": 32})], key=["n"])
@triton.jit
def first_config_kernel(out, n, SIZE: tl.constexpr):
    tl.store(out, SIZE + 0 * n)
