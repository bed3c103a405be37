"""A whole model over sealed pages: computed at once, in chunks or after a cached prefix, it gives the same logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt.model.config import LayerConfig, ModelConfig, Rope
from sgrt.model.decoder import Decoder
from sgrt.model.random_weights import RandomWeights
from sgrt.model.registry import load_model
from sgrt_kernels.activation import Activation
from sgrt_kernels.layout import SEALED_DTYPES, PagedLayer, PageSeals, PageShape, exact_layer, sealed_pages

PAGE, TOKENS = 8, 45
CONFIG = ModelConfig(
    architecture="llama",
    layers=(LayerConfig(rope=Rope(theta=1e4)),) * 3,
    hidden=48,
    heads=4,
    kv_heads=2,
    head_dim=16,
    intermediate=96,
    vocabulary=120,
    context=256,
    norm_epsilon=1e-5,
    activation=Activation.SILU,
    tied_embeddings=True,
)
DTYPES = pytest.mark.parametrize("dtype", SEALED_DTYPES, ids=str)


@pytest.fixture(scope="module")
def model() -> Decoder:
    return load_model(RandomWeights(CONFIG), compute_dtype=torch.float32, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def token_ids() -> Tensor:
    return torch.randint(0, CONFIG.vocabulary, (TOKENS,), generator=torch.Generator().manual_seed(1))


def fresh_layers(dtype: torch.dtype) -> tuple[PagedLayer, ...]:
    pages = -(-TOKENS // PAGE)
    shape = PageShape(page_tokens=PAGE, kv_heads=CONFIG.kv_heads, head_dim=CONFIG.head_dim)

    def layer() -> PagedLayer:
        exact = exact_layer(pages, shape, dtype=torch.float32, device="cpu")
        return PagedLayer(
            keys=exact.keys, values=exact.values, sealed=sealed_pages(pages, shape, dtype=dtype, device="cpu")
        )

    return tuple(layer() for _ in CONFIG.layers)


def forward(
    model: Decoder, token_ids: Tensor, layers: tuple[PagedLayer, ...], start: int, end: int
) -> Tensor:
    positions = torch.arange(start, end)
    filled = torch.arange(start // PAGE, end // PAGE)
    pages = torch.arange(-(-TOKENS // PAGE), dtype=torch.int32)
    return model.forward(
        Batch(
            token_ids=token_ids[start:end],
            positions=positions,
            slots=positions,
            query_starts=torch.tensor([0, end - start], dtype=torch.int32),
            context_lengths=torch.tensor([end], dtype=torch.int32),
            page_table=pages[None],
            logit_rows=torch.arange(end - start),
            layers=layers,
            seals=PageSeals(
                sources=filled, targets=filled, own_pages=pages[None, start // PAGE : (end - 1) // PAGE + 1]
            ),
        )
    )


def in_chunks(model: Decoder, token_ids: Tensor, dtype: torch.dtype, sizes: list[int]) -> Tensor:
    layers, start, logits = fresh_layers(dtype), 0, []
    for size in sizes:
        logits.append(forward(model, token_ids, layers, start, start + size))
        start += size
    return torch.cat(logits).log_softmax(-1)


@DTYPES
@pytest.mark.parametrize("sizes", [[1] * TOKENS, [8, 8, 8, 8, 8, 5], [7, 13, 25], [44, 1], [3] * 15])
def test_chunks_and_single_steps_give_the_log_probabilities_of_one_pass(
    model: Decoder, token_ids: Tensor, dtype: torch.dtype, sizes: list[int]
) -> None:
    whole = in_chunks(model, token_ids, dtype, [TOKENS])
    assert (in_chunks(model, token_ids, dtype, sizes) - whole).abs().max() <= 1e-5


@DTYPES
def test_rescoring_what_was_decoded_gives_the_same_log_probabilities(
    model: Decoder, token_ids: Tensor, dtype: torch.dtype
) -> None:
    layers = fresh_layers(dtype)
    decoded = [forward(model, token_ids, layers, t, t + 1) for t in range(TOKENS)]
    # again from the border of the last full page, over the pages that decoding sealed
    start = TOKENS // PAGE * PAGE
    rescored = forward(model, token_ids, layers, start, TOKENS)
    assert (rescored.log_softmax(-1) - torch.cat(decoded[start:]).log_softmax(-1)).abs().max() <= 1e-5


@DTYPES
def test_sealed_pages_are_read(model: Decoder, token_ids: Tensor, dtype: torch.dtype) -> None:
    sealed = in_chunks(model, token_ids, dtype, [TOKENS])
    layers = tuple(PagedLayer(keys=layer.keys, values=layer.values) for layer in fresh_layers(dtype))
    pages = torch.arange(-(-TOKENS // PAGE), dtype=torch.int32)
    exact = model.forward(
        Batch(
            token_ids=token_ids,
            positions=torch.arange(TOKENS),
            slots=torch.arange(TOKENS),
            query_starts=torch.tensor([0, TOKENS], dtype=torch.int32),
            context_lengths=torch.tensor([TOKENS], dtype=torch.int32),
            page_table=pages[None],
            logit_rows=torch.arange(TOKENS),
            layers=layers,
        )
    ).log_softmax(-1)
    assert (sealed[:PAGE] - exact[:PAGE]).abs().max() <= 1e-5  # the first page is everybody's own
    assert 1e-5 < (sealed - exact).abs().max() < 2.0


def with_scaled_keys(factor: float) -> Decoder:
    """The model of `model()` with keys times `factor` and queries divided by it: the same function."""
    source = RandomWeights(CONFIG)
    scaled = load_model(source, compute_dtype=torch.float32, device=torch.device("cpu"))
    query, key = CONFIG.query_width, CONFIG.kv_width
    for layer in scaled.weights.layers:
        layer.attention.query_key_value[:query] /= factor
        layer.attention.query_key_value[query : query + key] *= factor
    return scaled


@DTYPES
@pytest.mark.parametrize("factor", [128.0, 1 / 64])
def test_keys_times_a_power_of_two_and_queries_divided_by_it_change_no_bit(
    model: Decoder, token_ids: Tensor, dtype: torch.dtype, factor: float
) -> None:
    scaled = in_chunks(with_scaled_keys(factor), token_ids, dtype, [TOKENS])
    assert torch.equal(scaled, in_chunks(model, token_ids, dtype, [TOKENS]))


@DTYPES
@pytest.mark.parametrize("factor", [100.0, 0.01, 7.3])
def test_keys_times_any_number_and_queries_divided_by_it_change_no_more_than_rounding_does(
    model: Decoder, token_ids: Tensor, dtype: torch.dtype, factor: float
) -> None:
    plain = in_chunks(model, token_ids, dtype, [TOKENS])
    scaled = in_chunks(with_scaled_keys(factor), token_ids, dtype, [TOKENS])
    divergence = (plain.exp() * (plain - scaled)).sum(-1)
    # Products by 100 round, and a few codes of thousands fall to the other side: single rows move by that much alone.
    assert float(divergence.median()) < 1e-6
    assert float(divergence.mean()) < 1e-5
