"""A Hugging Face folder (config.json, safetensors, tokenizer.json) as a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from sgrt.checkpoint.checkpoint import PackedTensor
from sgrt.checkpoint.folder_config import read_config
from sgrt.checkpoint.folder_files import INDEX_FILE, SINGLE_FILE, weight_paths
from sgrt.checkpoint.folder_tokenizer import read_tokenizer_data
from sgrt.checkpoint.json_file import JsonFile
from sgrt.checkpoint.safetensors_file import SafetensorsFile
from sgrt.errors import CorruptModel, ModelNotFound, UnsupportedModel
from sgrt.model.config import ModelConfig
from sgrt.model.weights import HOST
from sgrt.tokenizer.data import TokenizerData

_PREFIXES = ("model.language_model.", "language_model.model.", "model.")
_OUTPUTS = ("lm_head.weight", "language_model.lm_head.weight")
_OUTER = {"embed_tokens": "embedding", "norm": "final_norm"}
_INNER = {
    "self_attn.q_proj": "query",
    "self_attn.k_proj": "key",
    "self_attn.v_proj": "value",
    "self_attn.q_norm": "query_norm",
    "self_attn.k_norm": "key_norm",
    "self_attn.o_proj": "attention_output",
    "input_layernorm": "attention_norm",
    "mlp.gate_proj": "gate",
    "mlp.up_proj": "up",
    "mlp.down_proj": "down",
}
_PLAIN_NORMS = {"post_attention_layernorm": "mlp_norm"}
_GEMMA_NORMS = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "mlp_norm",
    "post_feedforward_layernorm": "post_mlp_norm",
}


class FolderCheckpoint:
    """A model folder, open."""

    __slots__ = ("_config", "_files", "_folder", "_name", "_names", "_tokenizer_data")

    def __init__(self, folder: Path, name: str) -> None:
        """Open `folder`.

        Raises:
            ModelNotFound: a file that every model folder has is missing.
            CorruptModel: a file is truncated or contradicts another.
            UnsupportedModel: the architecture, quantization or a tensor's type is unknown.
        """
        self._folder = folder
        self._name = name
        self._config = read_config(JsonFile.read(folder / "config.json"))
        self._files = {
            tensor: file for file in map(SafetensorsFile, _weight_paths(folder)) for tensor in file.names
        }
        norms = _GEMMA_NORMS if self._is_gemma else _PLAIN_NORMS
        self._names = {
            canonical: tensor
            for tensor in self._files
            if (canonical := _canonical(tensor, _INNER | norms)) is not None
        }
        if self._config.tied_embeddings:
            self._names.pop("output.weight", None)
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
            self._tokenizer_data = read_tokenizer_data(self._folder, self._config.vocabulary)
        return self._tokenizer_data

    def names(self) -> frozenset[str]:
        """Canonical names of all tensors of the model."""
        return frozenset(self._names)

    def tensor(self, name: str, device: torch.device = HOST) -> Tensor:
        """The tensor under its canonical name on `device`, in the file's type (Gemma's norms as float32)."""
        stored = self._names.get(name)
        if stored is None:
            raise CorruptModel(f"{self._folder}: the files have no tensor for {name!r}")
        tensor = self._files[stored].tensor(stored).to(device)
        if self._is_gemma and name.endswith("norm.weight"):
            return tensor.float() + 1.0  # Gemma stores the norm's weight less one
        return tensor

    def packed(self, name: str) -> PackedTensor:
        """Always refused: a folder stores no ggml blocks.

        Raises:
            UnsupportedModel: always.
        """
        raise UnsupportedModel(
            f"{self._folder}: {name!r} is not stored in ggml blocks; packed weights need a GGUF file"
        )

    @property
    def _is_gemma(self) -> bool:
        return self._config.architecture == "gemma3"


def _weight_paths(folder: Path) -> list[Path]:
    paths = weight_paths(folder)
    if not paths:
        raise ModelNotFound(f"{folder}: the folder has neither {SINGLE_FILE} nor {INDEX_FILE}")
    return paths


def _canonical(tensor: str, inner: dict[str, str]) -> str | None:
    """`model.layers.3.self_attn.q_proj.weight` -> `layers.3.query.weight`; None for what is no weight of the model."""
    if tensor in _OUTPUTS:
        return "output.weight"
    prefix = next((prefix for prefix in _PREFIXES if tensor.startswith(prefix)), None)
    if prefix is None:
        return None
    stem, _, kind = tensor.removeprefix(prefix).rpartition(".")
    if stem in _OUTER:
        return f"{_OUTER[stem]}.{kind}"
    match stem.split(".", 2):
        case ["layers", layer, name] if name in inner:
            return f"layers.{layer}.{inner[name]}.{kind}"
        case _:
            return None
