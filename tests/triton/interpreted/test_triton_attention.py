"""Paged and sealed attention in Triton against float64."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from ragged_batch import Ragged, make_ragged
from sealed_sequence import TokenRun, exact_ids, make_run, paired_layer, sealed_ids, write_and_seal
from torch import Tensor

from sgrt_kernels.configurations import INTERPRETED, AttentionConfig
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.ops.paged_attention import triton as paged_kernels
from sgrt_kernels.ops.sealed_attention import triton as sealed_kernels

TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 6e-3, torch.float32: 1e-5}
SPLIT = replace(INTERPRETED, target_programs=16, decode_tokens=16)


@pytest.fixture(autouse=True)
def poisoned_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh memory holds NaN: what a kernel does not write shows."""
    empty, empty_like = torch.empty, torch.empty_like
    monkeypatch.setattr(torch, "empty", lambda *a, **k: fill_nan(empty(*a, **k)))
    monkeypatch.setattr(torch, "empty_like", lambda *a, **k: fill_nan(empty_like(*a, **k)))


def fill_nan(tensor: Tensor) -> Tensor:
    return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor


def relative_error(result: Tensor, expected: Tensor) -> float:
    error = float((result.double() - expected).norm() / expected.norm())
    return error if error == error else float("inf")


def dense(ragged: Ragged, *, window: int | None = None, soft_cap: float | None = None) -> Tensor:
    """Attention in float64 over the stored keys and values."""
    group = ragged.query.shape[1] // ragged.keys.shape[1]
    rows, first = [], 0
    for i, context in enumerate(ragged.context_lengths.tolist()):
        begin, end = int(ragged.query_starts[i]), int(ragged.query_starts[i + 1])
        keys, values = (
            x[first : first + context].double().repeat_interleave(group, 1)
            for x in (ragged.keys, ragged.values)
        )
        scores = torch.einsum("qhd,nhd->hqn", ragged.query[begin:end].double(), keys) * scale_of(ragged)
        if soft_cap is not None:
            scores = soft_cap * torch.tanh(scores / soft_cap)
        position = torch.arange(context - (end - begin), context)[:, None]
        token = torch.arange(context)[None]
        visible = token <= position
        if window is not None:
            visible = visible & (token > position - window)
        weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
        rows.append(torch.einsum("hqn,nhd->qhd", weights, values))
        first += context
    return torch.cat(rows)


def scale_of(ragged: Ragged) -> float:
    return float(ragged.query.shape[-1] ** -0.5)


def paged(ragged: Ragged, config: AttentionConfig = SPLIT, **options: float | None) -> Tensor:
    return paged_kernels.paged_attention(
        ragged.query.to(ragged.layer.keys.dtype),
        ragged.layer,
        ragged.query_starts,
        ragged.context_lengths,
        ragged.page_table,
        scale=scale_of(ragged),
        config=config,
        **options,  # type: ignore[arg-type]  # window is an int
    )


def rounded(ragged: Ragged) -> Ragged:
    return replace(ragged, query=ragged.query.to(ragged.layer.keys.dtype).float())


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "page_tokens", "dtype"),
    [
        (3, 3, 64, 16, torch.bfloat16),
        (6, 2, 64, 32, torch.float16),
        (8, 2, 128, 64, torch.bfloat16),
        (7, 1, 96, 16, torch.float32),
        (8, 1, 256, 128, torch.float16),
    ],
)
def test_decode_agrees_with_float64(
    heads: int, kv_heads: int, head_dim: int, page_tokens: int, dtype: torch.dtype
) -> None:
    ragged = make_ragged(
        contexts=[1, 37, 140],
        chunks=[1, 1, 1],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_tokens=page_tokens,
        dtype=dtype,
    )
    assert relative_error(paged(ragged), dense(rounded(ragged))) < TOLERANCE[dtype]


@pytest.mark.parametrize("splits", [1, 4])
@pytest.mark.parametrize(("window", "soft_cap"), [(20, None), (None, 3.0), (33, 4.0), (1, None)])
def test_decode_keeps_its_window_and_cap(splits: int, window: int | None, soft_cap: float | None) -> None:
    ragged = make_ragged(contexts=[70, 16, 17], chunks=[1, 1, 1], page_tokens=16)
    config = replace(SPLIT, target_programs=splits * 6)
    result = paged(ragged, config, window=window, soft_cap=soft_cap)
    assert relative_error(result, dense(ragged, window=window, soft_cap=soft_cap)) < 1e-5


@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "page_tokens", "dtype"),
    [(6, 2, 64, 16, torch.bfloat16), (7, 1, 96, 32, torch.float16), (4, 4, 32, 64, torch.float32)],
)
def test_extend_agrees_with_float64(
    heads: int, kv_heads: int, head_dim: int, page_tokens: int, dtype: torch.dtype
) -> None:
    ragged = make_ragged(
        contexts=[45, 3, 70],
        chunks=[20, 3, 1],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_tokens=page_tokens,
        dtype=dtype,
    )
    assert relative_error(paged(ragged), dense(rounded(ragged))) < TOLERANCE[dtype]


@pytest.mark.parametrize(("window", "soft_cap"), [(9, None), (None, 3.0), (33, 4.0)])
def test_extend_keeps_its_window_and_cap(window: int | None, soft_cap: float | None) -> None:
    ragged = make_ragged(contexts=[70, 33], chunks=[40, 33], page_tokens=16)
    result = paged(ragged, window=window, soft_cap=soft_cap)
    assert relative_error(result, dense(ragged, window=window, soft_cap=soft_cap)) < 1e-5


@pytest.mark.parametrize("window", [None, 20])
def test_single_rows_before_chunks_are_decoded(window: int | None) -> None:
    ragged = make_ragged(contexts=[70, 1, 33, 45], chunks=[1, 1, 20, 1], page_tokens=16)
    expected = dense(ragged, window=window)
    for num_single in (0, 1, 2):
        result = paged(ragged, window=window, num_single=num_single)
        assert relative_error(result, expected) < 1e-5


def test_the_batch_invariant_mode_gives_a_row_the_same_bits_in_every_batch() -> None:
    config = replace(SPLIT, target_programs=3)
    ragged = make_ragged(contexts=[90, 37, 12], chunks=[1, 1, 1], page_tokens=16)
    together = paged(ragged, config, is_batch_invariant=True)
    for i in range(3):
        alone = replace(
            ragged,
            query=ragged.query[i : i + 1],
            query_starts=torch.tensor([0, 1], dtype=torch.int32),
            context_lengths=ragged.context_lengths[i : i + 1],
            page_table=ragged.page_table[i : i + 1],
        )
        assert torch.equal(paged(alone, config, is_batch_invariant=True), together[i : i + 1])


def test_an_empty_batch_gives_an_empty_result() -> None:
    ragged = make_ragged(contexts=[5], chunks=[1], page_tokens=16)
    empty = replace(ragged, query=ragged.query[:0], context_lengths=ragged.context_lengths[:0])
    assert paged(empty).shape == (0, 6, 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedCase:
    run: TokenRun
    layer: PagedLayer
    chunks: list[tuple[int, int]]  # (start, end) of each sequence, all prefixes of the run

    def attend(self, config: AttentionConfig = SPLIT, **options: float | None) -> Tensor:
        page = self.layer.page_tokens
        starts = torch.tensor([0, *(end - start for start, end in self.chunks)]).cumsum(0).to(torch.int32)
        ids, own = sealed_ids(self.layer), exact_ids(self.layer)
        widest = max((end - 1) // page - start // page for start, end in self.chunks) + 1
        own_pages = torch.zeros(len(self.chunks), widest, dtype=torch.int32)
        for i, (start, end) in enumerate(self.chunks):
            mine = own[start // page : (end - 1) // page + 1]
            own_pages[i, : len(mine)] = mine
        assert self.layer.sealed is not None
        return sealed_kernels.sealed_attention(
            torch.cat([self.run.query[start:end] for start, end in self.chunks]).to(self.layer.keys.dtype),
            self.layer,
            self.layer.sealed,
            starts,
            torch.tensor([end for _, end in self.chunks], dtype=torch.int32),
            ids[None, : max(1, max(end for _, end in self.chunks) // page)]
            .expand(len(self.chunks), -1)
            .contiguous(),
            own_pages,
            scale=self.run.query.shape[-1] ** -0.5,
            config=config,
            **options,  # type: ignore[arg-type]  # window is an int
        )

    def expected(self, *, window: int | None = None, soft_cap: float | None = None) -> Tensor:
        """The rule in float64 over what is stored: own page exact, earlier pages sealed."""
        assert self.layer.sealed is not None
        page, group = self.layer.page_tokens, self.run.query.shape[1] // self.run.keys.shape[1]
        ids = sealed_ids(self.layer).long()
        stored = [
            (self.layer.sealed.dequantized_keys(ids).flatten(0, 1).double(), self.run.keys),
            (self.layer.sealed.dequantized_values(ids).flatten(0, 1).double(), self.run.values),
        ]
        rows = []
        for t in (t for start, end in self.chunks for t in range(start, end)):
            own, low = t // page * page, 0 if window is None else max(0, t - window + 1)
            keys, values = (
                torch.cat([quantized[:own], exact[own : t + 1].to(self.layer.keys.dtype).double()])[
                    low:
                ].repeat_interleave(group, 1)
                for quantized, exact in stored
            )
            query = self.run.query[t].to(self.layer.keys.dtype).double()
            scores = torch.einsum("hd,nhd->hn", query, keys) * self.run.query.shape[-1] ** -0.5
            if soft_cap is not None:
                scores = soft_cap * torch.tanh(scores / soft_cap)
            rows.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), values))
        return torch.stack(rows)


def sealed_case(
    chunks: list[tuple[int, int]],
    *,
    dtype: torch.dtype,
    heads: int = 6,
    kv_heads: int = 2,
    head_dim: int = 64,
    page_tokens: int = 32,
    exact_dtype: torch.dtype = torch.bfloat16,
    value_scale: float = 1.0,
    transposed: bool = True,
) -> SealedCase:
    run = make_run(max(end for _, end in chunks), heads=heads, kv_heads=kv_heads, head_dim=head_dim)
    run = replace(run, values=run.values * value_scale)
    layer = paired_layer(
        run, dtype=dtype, page_tokens=page_tokens, exact_dtype=exact_dtype, transposed_values=transposed
    )
    write_and_seal(run, layer, 0, len(run.query))
    return SealedCase(run=run, layer=layer, chunks=chunks)


SEALED = pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn], ids=str)


@SEALED
@pytest.mark.parametrize(
    ("heads", "kv_heads", "head_dim", "page_tokens", "transposed"),
    [(6, 2, 64, 32, True), (7, 1, 96, 16, False), (4, 2, 128, 32, True), (8, 1, 256, 64, True)],
)
def test_sealed_decode_agrees_with_float64(
    dtype: torch.dtype, heads: int, kv_heads: int, head_dim: int, page_tokens: int, transposed: bool
) -> None:
    case = sealed_case(
        [(0, 1), (36, 37), (63, 64), (139, 140)],
        dtype=dtype,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        page_tokens=page_tokens,
        transposed=transposed,
    )
    assert relative_error(case.attend(), case.expected()) < TOLERANCE[torch.float16] * 2


@SEALED
@pytest.mark.parametrize("page_tokens", [16, 32, 64])  # 64: in two blocks
@pytest.mark.parametrize(
    "chunks", [[(20, 75), (0, 3), (64, 65)], [(31, 33)], [(0, 70), (63, 66)], [(90, 140)]]
)
def test_sealed_extend_agrees_with_float64(
    dtype: torch.dtype, chunks: list[tuple[int, int]], page_tokens: int
) -> None:
    case = sealed_case(chunks, dtype=dtype, page_tokens=page_tokens)
    assert relative_error(case.attend(), case.expected()) < TOLERANCE[torch.float16] * 2


@pytest.mark.parametrize("page_tokens", [32, 64])
@pytest.mark.parametrize("chunks", [[(99, 100), (10, 11)], [(70, 100)]])
@pytest.mark.parametrize(("window", "soft_cap"), [(40, None), (5, None), (None, 3.0)])
def test_sealed_attention_keeps_its_window_and_cap(
    chunks: list[tuple[int, int]], window: int | None, soft_cap: float | None, page_tokens: int
) -> None:
    case = sealed_case(chunks, dtype=torch.int8, page_tokens=page_tokens)
    expected = case.expected(window=window, soft_cap=soft_cap)
    assert (
        relative_error(case.attend(window=window, soft_cap=soft_cap), expected) < TOLERANCE[torch.float16] * 2
    )


@pytest.mark.parametrize("chunks", [[(99, 100), (10, 11)], [(70, 100)]])
@pytest.mark.parametrize("value_scale", [1e-6, 1e4])
def test_small_and_large_values_keep_their_precision(
    chunks: list[tuple[int, int]], value_scale: float
) -> None:
    case = sealed_case(chunks, dtype=torch.int8, value_scale=value_scale, exact_dtype=torch.float32)
    # the exact page of values this small is rounded to float16 by the kernel; sealed ones are not
    tolerance = 2e-2 if value_scale < 1 else TOLERANCE[torch.float16] * 2
    assert relative_error(case.attend(), case.expected()) < tolerance


@pytest.mark.parametrize("chunks", [[(99, 100), (10, 11)], [(70, 100)]])
def test_soft_float8_reads_what_the_hardware_conversion_reads(
    monkeypatch: pytest.MonkeyPatch, chunks: list[tuple[int, int]]
) -> None:
    case = sealed_case(chunks, dtype=torch.float8_e4m3fn)
    monkeypatch.setattr(sealed_kernels, "code_kind", lambda sealed: "soft_fp8")
    assert relative_error(case.attend(), case.expected()) < TOLERANCE[torch.float16] * 2
