"""GGUF files: every type is read, and a damaged file ends in an error that says what is wrong."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType
from gguf.constants import GGML_QUANT_SIZES
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import TINY_MODELS, write_gguf

from sgrt.checkpoint.gguf_file import GgufFile
from sgrt.checkpoint.opening import open_checkpoint
from sgrt.errors import CorruptModel, ModelError, UnsupportedModel

# Every type that the `gguf` package can turn back into numbers.
READABLE = sorted(gguf.quants._type_traits, key=lambda type_: type_.name)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(TINY_MODELS["llama"], tmp_path_factory.mktemp("gguf") / "llama.gguf")


@pytest.mark.parametrize(
    "type_", [*READABLE, GGMLQuantizationType.F32, GGMLQuantizationType.F16], ids=lambda type_: type_.name
)
def test_every_type_is_dequantized_as_the_gguf_package_does(
    type_: GGMLQuantizationType, tmp_path: Path
) -> None:
    block, block_bytes = GGML_QUANT_SIZES[type_]
    columns, rows = max(block, 4) * 2, 1100  # more rows than are dequantized at a time
    row_bytes = columns // block * block_bytes
    raw = np.random.default_rng(0).integers(0, 256, (rows, row_bytes), dtype=np.uint8)
    path = tmp_path / "one.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", raw, raw_dtype=type_)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(path)
    record = file.header.tensors["token_embd.weight"]
    assert record.shape == (rows, columns)
    with np.errstate(all="ignore"):
        values = file.values(file.blocks(record), record)
        expected = gguf.quants.dequantize(raw, type_)
    np.testing.assert_array_equal(values, expected.reshape(rows, columns))


@pytest.mark.parametrize("name", ["embedding.weight", "layers.0.query.weight", "final_norm.weight"])
def test_a_tensor_of_another_device_lies_there_whole(llama: Path, name: str) -> None:
    checkpoint = open_checkpoint(str(llama))
    on_host, elsewhere = checkpoint.tensor(name), checkpoint.tensor(name, torch.device("meta"))
    assert elsewhere.device.type == "meta"
    assert (elsewhere.shape, elsewhere.dtype) == (on_host.shape, on_host.dtype)


@pytest.mark.parametrize(
    "type_", [GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q4_1, GGMLQuantizationType.F32]
)
def test_packed_rows_stand_in_canonical_order(type_: GGMLQuantizationType, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(TINY_MODELS["llama"], tmp_path / "llama.gguf", type_))
    for name in ("layers.0.query.weight", "layers.1.key.weight", "layers.2.value.weight", "embedding.weight"):
        packed = checkpoint.packed(name)
        assert packed.type_name == type_.name
        values = gguf.quants.dequantize(packed.blocks, type_)
        assert packed.shape == values.shape
        torch.testing.assert_close(
            torch.from_numpy(values.copy()), checkpoint.tensor(name), atol=0.0, rtol=0.0
        )


def test_a_file_cut_short_anywhere_is_refused_with_both_sizes(llama: Path, tmp_path: Path) -> None:
    whole, cut = llama.read_bytes(), tmp_path / "cut.gguf"

    @given(st.integers(4, len(whole) - 33))
    def refused(size: int) -> None:
        cut.write_bytes(whole[:size])
        with pytest.raises(CorruptModel, match=f"truncated: it has {size:,} bytes, but .* [0-9,]+"):
            open_checkpoint(cut)

    refused()


def test_damage_in_the_header_never_ends_in_anything_but_a_model_error(llama: Path, tmp_path: Path) -> None:
    whole, damaged = llama.read_bytes(), tmp_path / "damaged.gguf"
    change = st.tuples(st.integers(0, 13_000), st.integers(0, 255))

    @given(st.lists(change, min_size=1, max_size=4))
    def contained(changes: list[tuple[int, int]]) -> None:
        content = bytearray(whole)
        for position, value in changes:
            content[position] = value
        damaged.write_bytes(content)
        try:
            checkpoint = open_checkpoint(damaged)
            _ = checkpoint.tokenizer_data
        except ModelError as error:
            assert str(damaged) in str(error)

    contained()


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", CorruptModel, "is empty"),
        (b"GGUF", CorruptModel, "truncated"),
        (b"PK\x03\x04" + bytes(60), CorruptModel, "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), UnsupportedModel, "version 9 is unknown; known: 2, 3"),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), UnsupportedModel, "little-endian"),
        (b"GGUF" + struct.pack("<IQQ", 3, 1 << 60, 0), CorruptModel, "truncated"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0) + bytes(40), CorruptModel, "general.architecture"),
    ],
)
def test_what_is_no_gguf_file_is_refused(
    content: bytes, error: type[ModelError], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(content)
    with pytest.raises(error, match=message):
        open_checkpoint(path)


def test_an_unknown_architecture_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    path = tmp_path / "mamba.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(UnsupportedModel, match=r"'mamba' is unknown; known .*llama, qwen2, qwen3, gemma3"):
        open_checkpoint(path)


def test_an_unknown_tensor_type_is_refused_with_those_that_are_known(llama: Path, tmp_path: Path) -> None:
    name = b"token_embd.weight"
    content = bytearray(llama.read_bytes())
    type_at = content.index(name) + len(name) + 4 + 2 * 8
    assert content[type_at : type_at + 4] == struct.pack("<I", GGMLQuantizationType.F32)
    content[type_at : type_at + 4] = struct.pack("<I", 999)
    path = tmp_path / "odd.gguf"
    path.write_bytes(content)
    with pytest.raises(
        UnsupportedModel, match=r"'token_embd.weight' has the unknown type number 999; known types: .*Q4_K"
    ):
        open_checkpoint(path)


def test_a_tensor_that_is_missing_is_named(llama: Path) -> None:
    with pytest.raises(CorruptModel, match=r"no tensor for 'layers.9.query.weight'"):
        open_checkpoint(llama).tensor("layers.9.query.weight")


def test_what_the_tokenizer_is_built_from_is_read(llama: Path) -> None:
    data = open_checkpoint(llama).tokenizer_data
    assert data.vocabulary_size == 288
    assert data.begin_token_ids == ()
    assert data.end_token_ids == (
        266,
        264,
    )  # <|im_end|>, which the file names, and <|endoftext|>, known by its text
    assert ("bos_token", "<|im_start|>") in data.template_tokens
    assert data.chat_template is not None
