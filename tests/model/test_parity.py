"""Logits agree with `transformers` on the same weights, paged or not, alone or together."""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType
from hypothesis import given
from hypothesis import strategies as st
from paged_harness import PagedHarness
from tiny_models import TINY_MODELS, write_folder, write_gguf
from torch import Tensor
from transformers import AutoModelForCausalLM

from sgrt.checkpoint.opening import open_checkpoint
from sgrt.model.decoder import Decoder
from sgrt.model.registry import load_model

CPU = torch.device("cpu")
TOLERANCE = 1e-3
PROMPT = [(7 * index * index + 3) % 264 for index in range(45)]
FAMILIES = list(TINY_MODELS)
FOLDER_ONLY = ("qwen2-window", "gemma3-scaled")  # what they configure has no place in a GGUF file
ROUNDED = [
    GGMLQuantizationType.Q8_0,
    GGMLQuantizationType.BF16,
    GGMLQuantizationType.F16,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def loaded(path: Path, dtype: torch.dtype = torch.float32) -> Decoder:
    return load_model(open_checkpoint(path), compute_dtype=dtype, device=CPU)


def from_folder(family: str, folder: Path) -> Decoder:
    return loaded(write_folder(TINY_MODELS[family], folder / family))


class Reference:
    """The same folder in `transformers`."""

    def __init__(self, path: Path) -> None:
        self._model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        )

    def logits(self, sequences: list[list[int]]) -> Tensor:
        """[sequences, tokens, vocabulary] for sequences of one length."""
        with torch.inference_mode():
            logits: Tensor = self._model(torch.tensor(sequences)).logits
        return logits


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_of_a_folder_equal_those_of_transformers(family: str, folder: Path) -> None:
    ours = PagedHarness(from_folder(family, folder), pages=16).whole(0, PROMPT)
    theirs = Reference(folder / family).logits([PROMPT])[0]
    assert theirs.std() > 0.1
    torch.testing.assert_close(ours, theirs, atol=TOLERANCE, rtol=0.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_twenty_greedy_continuations_of_64_tokens_are_those_of_transformers(
    family: str, folder: Path
) -> None:
    model = from_folder(family, folder)
    harness = PagedHarness(model, pages=500)
    sequences = [[(start * 13 + step * step) % 264 for step in range(6)] for start in range(20)]
    chunks = [(number, list(tokens)) for number, tokens in enumerate(sequences)]
    for _ in range(64):
        taken = [int(logits[-1].argmax()) for logits in harness.step(chunks)]
        chunks = [(number, [token]) for number, token in enumerate(taken)]
        for sequence, token in zip(sequences, taken, strict=True):
            sequence.append(token)
    # By induction over positions: each of our tokens is the reference's best after our tokens so far.
    best = Reference(folder / family).logits(sequences).argmax(dim=-1)
    assert best[:, 5:-1].tolist() == [sequence[6:] for sequence in sequences]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in FOLDER_ONLY])
def test_a_gguf_file_gives_the_logits_of_the_folder_it_was_made_from(family: str, folder: Path) -> None:
    path = write_gguf(TINY_MODELS[family], folder / f"{family}.gguf")
    ours = PagedHarness(loaded(path), pages=16).whole(0, PROMPT)
    expected = PagedHarness(from_folder(family, folder), pages=16).whole(0, PROMPT)
    torch.testing.assert_close(ours, expected, atol=TOLERANCE, rtol=0.0)


@pytest.mark.parametrize("type_", ROUNDED, ids=lambda type_: type_.name)
def test_a_rounded_gguf_file_stays_close_to_its_original(type_: GGMLQuantizationType, folder: Path) -> None:
    path = write_gguf(TINY_MODELS["llama"], folder / f"llama-{type_.name}.gguf", type_)
    ours = PagedHarness(loaded(path), pages=16).whole(0, PROMPT)
    exact = PagedHarness(from_folder("llama", folder), pages=16).whole(0, PROMPT)
    assert 0.0 < float((ours - exact).norm() / exact.norm()) < 0.15


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_stays_close_to_float32(family: str, folder: Path) -> None:
    exact = PagedHarness(from_folder(family, folder), pages=16).whole(0, PROMPT)
    harness = PagedHarness(loaded(folder / family, torch.bfloat16), pages=16, dtype=torch.bfloat16)
    rounded = harness.whole(0, PROMPT)
    assert rounded.dtype == torch.float32
    assert float((rounded - exact).norm() / exact.norm()) < 0.1


@cache
def _shared(family: str, folder: Path) -> tuple[Decoder, Tensor]:
    model = from_folder(family, folder)
    return model, PagedHarness(model, pages=16).whole(0, PROMPT)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_logits_do_not_depend_on_how_a_sequence_is_cut_into_chunks(family: str, folder: Path) -> None:
    model, whole = _shared(family, folder)

    @given(st.lists(st.integers(1, len(PROMPT) - 1), max_size=5, unique=True))
    def cut_anywhere(cuts: list[int]) -> None:
        harness = PagedHarness(model, pages=16)
        borders = [0, *sorted(cuts), len(PROMPT)]
        pieces = [PROMPT[start:end] for start, end in itertools.pairwise(borders)]
        logits = torch.cat([harness.whole(0, piece) for piece in pieces])
        assert torch.equal(logits, whole)

    cut_anywhere()


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_do_not_depend_on_what_else_is_in_the_batch(family: str, folder: Path) -> None:
    model = from_folder(family, folder)
    alone = [PagedHarness(model, pages=40).whole(0, PROMPT[start:]) for start in (0, 11, 40)]
    together = PagedHarness(model, pages=40)
    together.step([(1, PROMPT[11:20]), (5, PROMPT[3:4])])
    logits = together.step([(0, PROMPT), (1, PROMPT[20:]), (2, PROMPT[40:])])
    assert torch.equal(logits[0], alone[0])
    assert torch.equal(logits[2], alone[2])
    assert torch.equal(logits[1], alone[1][9:])


def test_only_the_rows_asked_for_are_returned(folder: Path) -> None:
    harness = PagedHarness(from_folder("llama", folder), pages=16)
    assert harness.whole(0, PROMPT).shape == (len(PROMPT), 288)
