"""The CPU path: all layers of a step in one call into C++, over packed weights.

Its numbers are defined by `sgrt_kernels/native`: int8 activations in groups of 32, exact integer products, float sums
in one fixed order. They do not depend on the batch, on chunk sizes or on what was cached.
"""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt.model.config import ModelConfig
from sgrt.model.native_weights import DecoderUnsupported, NativeWeights, PackedSource
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.sealed import Seals, layers_of
from sgrt_kernels.native.structures import SealedLayerStruct, StepStruct
from sgrt_kernels.native.weights import ThreadTeam, WeightArena, usable_threads

__all__ = ["DecoderUnsupported", "NativeDecoder"]

# Of the keys and of the values of every layer, what the first sequences use: on large pages a single token would
# take as much memory as thousands.
_SMALL_PAGES_BYTES = 2 << 20
_PAGE_TYPES = {torch.float32: 0, torch.bfloat16: 1}


class NativeDecoder:
    """A model on the CPU kernels, behind the same `forward` as the torch models; a context manager."""

    def __init__(self, config: ModelConfig, source: PackedSource, *, threads: int | None = None) -> None:
        """Build the kernels if need be and pack the weights; `threads` defaults to the usable processors.

        Raises:
            NativeUnavailable: the kernels cannot be built here.
            DecoderUnsupported: they lack a type or size of this model.
        """
        self._config = config
        self._library = kernels()
        self._team = ThreadTeam(self._library, threads or usable_threads())
        self._arena = WeightArena(self._library, self._team)
        self._handle: int | None = None
        try:
            self._weights = NativeWeights(config, source, self._arena)
            self._handle = self._library.sgrt_decoder_create(
                ctypes.byref(self._weights.model), self._team.handle
            )
            if self._handle is None:
                raise MemoryError("no memory for the decoder")
        except BaseException:
            self.close()
            raise
        self._layers: tuple[PagedLayer, ...] = ()
        self._sealed_layers: ctypes.Array[SealedLayerStruct] | None = None
        self._keys = (ctypes.c_void_p * len(config.layers))()
        self._values = (ctypes.c_void_p * len(config.layers))()

    @property
    def config(self) -> ModelConfig:
        """The model's numbers."""
        return self._config

    @property
    def threads(self) -> int:
        """Threads that compute a step."""
        return self._team.threads

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights, all of them read by a step that wants logits."""
        return self._arena.packed_bytes

    def forward(self, batch: Batch) -> Tensor:
        """Write the batch's keys and values into their pages and return logits, [rows, vocabulary] float32.

        Raises:
            DecoderUnsupported: the dtype of the exact pages is neither float32 nor bfloat16.
        """
        if self._handle is None:
            raise RuntimeError("the decoder is closed")
        self._point_at(batch.layers)
        seals = self._seals_of(batch)
        rows, tokens = batch.logit_rows.shape[0], batch.token_ids.shape[0]
        logits = torch.empty((rows, self._config.vocabulary), dtype=torch.float32)
        arrays = {
            "token_ids": (batch.token_ids, torch.int64),
            "positions": (batch.positions, torch.int64),
            "slots": (batch.slots, torch.int64),
            "query_starts": (batch.query_starts, torch.int32),
            "context_lengths": (batch.context_lengths, torch.int32),
            "page_table": (batch.page_table, torch.int32),
            "logit_rows": (batch.logit_rows, torch.int64),
        }
        # Contiguous tensors of the right type pass through `to` and `contiguous` uncopied.
        held = {name: tensor.to(dtype).contiguous() for name, (tensor, dtype) in arrays.items()}
        step = StepStruct(
            **{name: tensor.data_ptr() for name, tensor in held.items()},
            keys=ctypes.addressof(self._keys),
            values=ctypes.addressof(self._values),
            logits=logits.data_ptr(),
            seals=None if seals is None else seals.address,
            tokens=tokens,
            sequences=batch.context_lengths.shape[0],
            max_pages=batch.page_table.shape[1],
            rows=rows,
            page_tokens=batch.layers[0].page_tokens,
            page_type=_PAGE_TYPES[batch.layers[0].keys.dtype],
        )
        outcome = self._library.sgrt_decoder_forward(self._handle, ctypes.byref(step))
        if outcome == 0:
            raise MemoryError(f"no memory for a step of {tokens} tokens")
        if outcome < 0:
            raise ValueError(f"a token id lies outside the vocabulary of {self._config.vocabulary} tokens")
        return logits

    def close(self) -> None:
        """Stop the threads and give the weights' memory back. Closing twice is harmless."""
        if self._handle is not None:
            self._library.sgrt_decoder_destroy(self._handle)
            self._handle = None
        self._arena.close()
        self._team.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _point_at(self, layers: tuple[PagedLayer, ...]) -> None:
        """Take the addresses of the pages, anew only where the pool has changed."""
        if layers is self._layers:
            return
        for index, layer in enumerate(layers):
            for pages in (layer.keys, layer.values):
                if pages.dtype not in _PAGE_TYPES:
                    raise DecoderUnsupported(
                        f"pages of {pages.dtype}; the CPU kernels read float32 and bfloat16. "
                        "Choose --kv-cache-dtype auto or bf16"
                    )
                if not pages.is_contiguous():
                    raise ValueError(f"the pages of layer {index} are not contiguous")
                self._advise(pages)
            self._keys[index] = layer.keys.data_ptr()
            self._values[index] = layer.values.data_ptr()
        sealed = [layer.sealed for layer in layers if layer.sealed is not None]
        self._sealed_layers = layers_of(sealed) if sealed else None
        self._layers = layers

    def _seals_of(self, batch: Batch) -> Seals | None:
        sealed = batch.layers[0].sealed
        if batch.seals is None or sealed is None:
            return None
        assert self._sealed_layers is not None, "sealed pages were taken the addresses of"
        return Seals(self._sealed_layers, batch.seals, sealed.keys.dtype)

    def _advise(self, pages: Tensor) -> None:
        """Large pages for all but the beginning, where memory is touched from now on."""
        small = min(_SMALL_PAGES_BYTES, pages.nbytes)
        self._library.sgrt_advise_small_pages(pages.data_ptr(), small)
        self._library.sgrt_advise_large_pages(pages.data_ptr() + small, pages.nbytes - small)
