"""A GGUF file as a checkpoint: canonical names, canonical row order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from gguf.constants import GGMLQuantizationType
from numpy.typing import NDArray
from torch import Tensor

from sgrt.checkpoint.checkpoint import PackedTensor
from sgrt.checkpoint.gguf_config import read_config
from sgrt.checkpoint.gguf_file import GgufFile
from sgrt.checkpoint.gguf_header import TensorRecord
from sgrt.checkpoint.gguf_tokenizer import read_tokenizer_data
from sgrt.errors import CorruptModel
from sgrt.model.config import ModelConfig
from sgrt.model.weights import HOST
from sgrt.tokenizer.data import TokenizerData
from sgrt_kernels.gguf_blocks import BLOCK_TYPES, dequantized

_OUTER = {"token_embd": "embedding", "output_norm": "final_norm", "output": "output"}
_INNER = {
    "attn_norm": "attention_norm",
    "attn_q": "query",
    "attn_k": "key",
    "attn_v": "value",
    "attn_q_norm": "query_norm",
    "attn_k_norm": "key_norm",
    "attn_output": "attention_output",
    "post_attention_norm": "post_attention_norm",
    "ffn_norm": "mlp_norm",
    "ffn_gate": "gate",
    "ffn_up": "up",
    "ffn_down": "down",
    "post_ffw_norm": "post_mlp_norm",
}
# Files of this architecture store each head's rotary pairs side by side (0, d/2, 1, d/2 + 1, ...).
_INTERLEAVED_ARCHITECTURE = "llama"


class GgufCheckpoint:
    """A GGUF file, open."""

    __slots__ = ("_config", "_file", "_name", "_records", "_tokenizer_data")

    def __init__(self, path: Path, name: str) -> None:
        """Open `path`.

        Raises:
            CorruptModel: the file is truncated or contradicts itself.
            UnsupportedModel: its architecture, tokenizer or a tensor's type is unknown.
        """
        self._file = GgufFile(path)
        self._name = name
        self._config = read_config(self._file)
        self._records = {
            canonical: record
            for record in self._file.header.tensors.values()
            if (canonical := _canonical(record.name)) is not None
        }
        self._tokenizer_data: TokenizerData | None = None

    @property
    def name(self) -> str:
        """How people call the model."""
        return self._name

    @property
    def config(self) -> ModelConfig:
        """The model's numbers."""
        return self._config

    @property
    def tokenizer_data(self) -> TokenizerData:
        """What its tokenizer is built from."""
        if self._tokenizer_data is None:
            self._tokenizer_data = read_tokenizer_data(self._file, self._config.vocabulary)
        return self._tokenizer_data

    def names(self) -> frozenset[str]:
        """Canonical names of all tensors of the model."""
        return frozenset(self._records)

    def tensor(self, name: str, device: torch.device = HOST) -> Tensor:
        """The tensor on `device`, dequantized: bf16 and f16 as stored, everything else as float32.

        A GPU gets the blocks of the usual types as they are stored, an eighth of the bytes, and dequantizes them to the
        same numbers; rarer types are dequantized on the host.
        """
        record = self._record(name)
        blocks = self._canonical_blocks(name, record)
        if device.type != "cpu" and record.type.name in BLOCK_TYPES:
            stored = _as_tensor(blocks).to(device)
            return dequantized(record.type.name, stored).reshape(record.shape)
        return self._on_host(record, blocks).to(device)

    def _on_host(self, record: TensorRecord, blocks: NDArray[np.uint8]) -> Tensor:
        if record.type is GGMLQuantizationType.BF16:
            return _as_tensor(blocks.view(np.int16)).view(torch.bfloat16).reshape(record.shape)
        if record.type is GGMLQuantizationType.F16:
            return _as_tensor(blocks.view(np.float16)).reshape(record.shape)
        return torch.from_numpy(self._file.values(blocks, record)).reshape(record.shape)

    def packed(self, name: str) -> PackedTensor:
        """The tensor's stored blocks, rows in canonical order."""
        record = self._record(name)
        blocks = self._canonical_blocks(name, record)
        return PackedTensor(type_name=record.type.name, shape=record.shape, blocks=blocks)

    def _record(self, name: str) -> TensorRecord:
        record = self._records.get(name)
        if record is None:
            raise CorruptModel(f"{self._file.path}: the file has no tensor for {name!r}")
        return record

    def _canonical_blocks(self, name: str, record: TensorRecord) -> NDArray[np.uint8]:
        blocks = self._file.blocks(record)
        if self._config.architecture != _INTERLEAVED_ARCHITECTURE:
            return blocks
        if name.endswith((".query.weight", ".key.weight")):
            return blocks[half_split_order(blocks.shape[0], self._config.head_dim)]
        if name.endswith((".query.bias", ".key.bias")):
            values = blocks.reshape(record.shape[0], -1)  # one row per channel, moved like the weight's rows
            return values[half_split_order(record.shape[0], self._config.head_dim)].reshape(blocks.shape)
        return blocks


def half_split_order(rows: int, head_dim: int) -> NDArray[np.int64]:
    """Where each half-split row lies in an interleaved matrix: per head first the even rows, then the odd ones."""
    within_head = np.concatenate((np.arange(0, head_dim, 2), np.arange(1, head_dim, 2)))
    heads = np.arange(0, rows, head_dim)
    return (heads[:, None] + within_head[None, :]).reshape(-1)


def _canonical(gguf_name: str) -> str | None:
    """`blk.3.attn_q.weight` -> `layers.3.query.weight`; None for what is no weight of the model."""
    match gguf_name.split("."):
        case [stem, kind] if stem in _OUTER:
            return f"{_OUTER[stem]}.{kind}"
        case ["blk", layer, stem, kind] if stem in _INNER:
            return f"layers.{layer}.{_INNER[stem]}.{kind}"
        case _:
            return None


def _as_tensor(values: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(values if values.flags.writeable else values.copy())
