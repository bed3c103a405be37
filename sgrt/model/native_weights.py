"""A model's weights packed for the CPU kernels, tensor by tensor."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrt.errors import UnsupportedModel
from sgrt.model.config import ModelConfig
from sgrt_kernels.activation import Activation
from sgrt_kernels.native.structures import LayerStruct, MatrixStruct, ModelStruct, RopeStruct
from sgrt_kernels.native.weights import BLOCK_TYPES, MatrixShape, WeightArena
from sgrt_kernels.ops.rope.reference import rope_frequencies

_FLOAT_TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
_LAYER_MATRICES = ("query", "key", "value", "attention_output", "gate", "up", "down")
_LAYER_VECTORS = {
    "attention_norm": "attention_norm.weight",
    "mlp_norm": "mlp_norm.weight",
    "query_bias": "query.bias",
    "key_bias": "key.bias",
    "value_bias": "value.bias",
    "attention_output_bias": "attention_output.bias",
    "query_norm": "query_norm.weight",
    "key_norm": "key_norm.weight",
    "post_attention_norm": "post_attention_norm.weight",
    "post_mlp_norm": "post_mlp_norm.weight",
}
_GATES = {Activation.SILU: 0, Activation.GELU_TANH: 1}
_GROUP = 32  # columns that share an activation scale
_MOST_GROUPED_HEADS = 96


class DecoderUnsupported(UnsupportedModel):
    """The CPU kernels cannot run this model; `--compute float32` runs it in torch."""


class StoredTensor(Protocol):
    """A weight as its file stores it."""

    @property
    def type_name(self) -> str:
        """Ggml's name of the type."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """[rows, columns]."""
        ...

    @property
    def blocks(self) -> NDArray[np.uint8]:
        """[rows, bytes per row]."""
        ...


class PackedSource(Protocol):
    """Where weights come from; a `Checkpoint` is one."""

    def names(self) -> frozenset[str]:
        """Canonical names of all tensors."""
        ...

    def tensor(self, name: str) -> Tensor:
        """The tensor as floats."""
        ...

    def packed(self, name: str) -> StoredTensor:
        """The tensor's stored blocks; raises UnsupportedModel where the file has none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Blocks:
    """A matrix about to be packed."""

    type_name: str
    shape: tuple[int, int]
    data: NDArray[np.uint8]


class NativeWeights:
    """Everything `ModelStruct` points to, alive as long as this object is."""

    def __init__(self, config: ModelConfig, source: PackedSource, arena: WeightArena) -> None:
        """Pack all matrices of the model into the arena.

        Raises:
            DecoderUnsupported: a type or size that the kernels lack; the message names it.
        """
        _check_sizes(config)
        self._config = config
        self._source = source
        self._arena = arena
        self._arrays: list[NDArray[np.float32] | NDArray[np.float64]] = []  # alive while C points into them
        self._names = source.names()
        self._refuse_unknown_tensors()
        self._rope_kinds = list(dict.fromkeys(layer.rope for layer in config.layers))
        self._pack_matrices()
        count = len(config.layers)
        self._layers = (LayerStruct * count)(*(self._layer(index) for index in range(count)))
        self._ropes = self._rope_structs()
        self.model = self._model()

    def _pack_matrices(self) -> None:
        names = self._matrix_names()
        for name in names:
            blocks = self._blocks(name)
            rows, columns = blocks.shape
            try:
                self._arena.reserve(name, MatrixShape(type_name=blocks.type_name, rows=rows, columns=columns))
            except ValueError as error:
                known = ", ".join(BLOCK_TYPES)
                raise DecoderUnsupported(
                    f"{error}; the kernels hold {known}. Run with --compute float32, or convert the file"
                ) from error
        self._arena.allocate()
        for name in names:
            self._arena.pack(name, self._blocks(name).data)

    def _refuse_unknown_tensors(self) -> None:
        layers = range(len(self._config.layers))
        vectors = [f"layers.{index}.{name}" for index in layers for name in _LAYER_VECTORS.values()]
        unknown = self._names - {*self._matrix_names(), *vectors, "final_norm.weight", "output.weight"}
        if unknown:
            raise DecoderUnsupported(
                f"the CPU kernels have no place for {', '.join(sorted(unknown)[:3])}. Run with --compute float32"
            )

    def _matrix_names(self) -> list[str]:
        layers = range(len(self._config.layers))
        names = [f"layers.{index}.{matrix}.weight" for index in layers for matrix in _LAYER_MATRICES]
        outputs = [] if self._config.tied_embeddings else ["output.weight"]
        return ["embedding.weight", *names, *outputs]

    def _blocks(self, name: str) -> _Blocks:
        try:
            stored = self._source.packed(name)
        except DecoderUnsupported:
            raise
        except UnsupportedModel:
            return self._float_blocks(name)
        rows, columns = stored.shape
        return _Blocks(type_name=stored.type_name, shape=(rows, columns), data=stored.blocks)

    def _float_blocks(self, name: str) -> _Blocks:
        tensor = self._source.tensor(name).contiguous()
        if tensor.dtype not in _FLOAT_TYPES:
            tensor = tensor.float()
        rows, columns = tensor.shape
        return _Blocks(
            type_name=_FLOAT_TYPES[tensor.dtype],
            shape=(rows, columns),
            data=tensor.view(torch.uint8).numpy().reshape(rows, -1),
        )

    def _vector(self, name: str) -> int | None:
        """The address of a float32 copy of a small tensor; None where the model has none."""
        if name not in self._names:
            return None
        array = np.ascontiguousarray(self._source.tensor(name).float().numpy())
        self._arrays.append(array)
        return array.ctypes.data

    def _layer(self, index: int) -> LayerStruct:
        prefix = f"layers.{index}."
        layer = LayerStruct()
        for matrix in _LAYER_MATRICES:
            setattr(layer, matrix, self._arena.matrix(f"{prefix}{matrix}.weight"))
        for field, name in _LAYER_VECTORS.items():
            setattr(layer, field, self._vector(prefix + name))
        config = self._config.layers[index]
        layer.rope = self._rope_kinds.index(config.rope)
        layer.window = config.window or 0
        return layer

    def _rope_structs(self) -> ctypes.Array[RopeStruct]:
        structs = (RopeStruct * len(self._rope_kinds))()
        for struct, kind in zip(structs, self._rope_kinds, strict=True):
            frequencies, amplitude = rope_frequencies(self._config.head_dim, kind.theta, kind.scaling)
            array = np.ascontiguousarray(frequencies.numpy())
            self._arrays.append(array)
            struct.frequencies, struct.amplitude = array.ctypes.data, amplitude
        return structs

    def _model(self) -> ModelStruct:
        config = self._config
        output: MatrixStruct = self._arena.matrix(
            "embedding.weight" if config.tied_embeddings else "output.weight"
        )
        return ModelStruct(
            embedding=self._arena.matrix("embedding.weight"),
            output=output,
            layers=ctypes.addressof(self._layers),
            ropes=ctypes.addressof(self._ropes),
            final_norm=self._vector("final_norm.weight"),
            layer_count=len(config.layers),
            rope_count=len(self._ropes),
            hidden=config.hidden,
            heads=config.heads,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            intermediate=config.intermediate,
            vocabulary=config.vocabulary,
            gate=_GATES[config.activation],
            epsilon=config.norm_epsilon,
            embedding_scale=config.embedding_scale,
            query_scale=config.query_scale,
            attention_soft_cap=config.attention_soft_cap or 0.0,
            logit_soft_cap=config.logit_soft_cap or 0.0,
        )


def _check_sizes(config: ModelConfig) -> None:
    sizes = {
        "hidden": config.hidden,
        "head_dim": config.head_dim,
        "heads * head_dim": config.query_width,
        "intermediate": config.intermediate,
    }
    for field, size in sizes.items():
        if size % _GROUP:
            raise DecoderUnsupported(
                f"{config.architecture}: {field} is {size}; the CPU kernels need a multiple of {_GROUP}. "
                "Run with --compute float32"
            )
    if config.heads // config.kv_heads > _MOST_GROUPED_HEADS:
        raise DecoderUnsupported(
            f"{config.architecture}: {config.heads} heads share {config.kv_heads} kv heads; the CPU kernels take "
            f"at most {_MOST_GROUPED_HEADS} heads each. Run with --compute float32"
        )
