"""The CPU path: all layers of a step in one call into C++, over packed weights.

Its numbers are defined by `sgrt_kernels/native`: int8 activations in groups of 32, exact integer products, float sums
in one fixed order. They do not depend on the batch, on chunk sizes or on what was cached.
"""

from __future__ import annotations

import ctypes
import time
from array import array
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from sgrt.model.batch import Batch
from sgrt.model.config import ModelConfig
from sgrt.model.native_step import SealNumbers, StepNumbers
from sgrt.model.native_weights import DecoderUnsupported, NativeWeights, PackedSource
from sgrt_kernels.layout import PagedLayer, PageSeals
from sgrt_kernels.native.library import kernels
from sgrt_kernels.native.sealed import SEALED_TYPES, layers_of
from sgrt_kernels.native.structures import PAGE_TYPES, SealedLayerStruct, SealsStruct, StepStruct
from sgrt_kernels.native.weights import ThreadTeam, WeightArena, usable_threads

__all__ = ["DecoderUnsupported", "NativeDecoder"]

# Of the keys and of the values of every layer, what the first sequences use: on large pages a single token would
# take as much memory as thousands.
_SMALL_PAGES_BYTES = 2 << 20


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
        self._step = StepStruct(keys=ctypes.addressof(self._keys), values=ctypes.addressof(self._values))
        self._seals = SealsStruct()
        self._step_address = ctypes.addressof(self._step)
        self._kernel_s = 0.0

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

    @property
    def kernel_s(self) -> float:
        """Seconds spent inside the kernels so far."""
        return self._kernel_s

    def forward(self, batch: Batch) -> Tensor:
        """Write the batch's keys and values into their pages and return logits, [rows, vocabulary] float32.

        Raises:
            DecoderUnsupported: the dtype of the exact pages is none of float32, bfloat16 and int16.
        """
        numbers = StepNumbers(
            token_ids=batch.token_ids.tolist(),
            positions=batch.positions.tolist(),
            slots=batch.slots.tolist(),
            logit_rows=batch.logit_rows.tolist(),
            query_starts=batch.query_starts.tolist(),
            context_lengths=batch.context_lengths.tolist(),
            page_tables=batch.page_table.tolist(),
            seals=None if batch.seals is None else _seal_numbers(batch.seals),
        )
        logits = torch.empty((len(numbers.logit_rows), self._config.vocabulary), dtype=torch.float32)
        self.compute(numbers, batch.layers, logits)
        return logits

    def compute(
        self,
        numbers: StepNumbers,
        layers: tuple[PagedLayer, ...],
        logits: Tensor,
        *,
        largest: array[int] | None = None,
        candidates: int = 0,
    ) -> None:
        """As `forward`, into `logits`, [at least rows, vocabulary] float32 contiguous.

        `largest`, of at least as many 64-bit integers as there are rows, gets the first of each row's largest of the
        first `candidates` logits, -1 where none is above -inf.

        Raises:
            DecoderUnsupported: the dtype of the exact pages is none of float32, bfloat16 and int16.
        """
        if self._handle is None:
            raise RuntimeError("the decoder is closed")
        if layers is not self._layers:
            self._point_at(layers)
        step = self._step
        held = numbers.write_into(step, self._seals)
        step.logits = logits.data_ptr()
        step.seals = None if numbers.seals is None else ctypes.addressof(self._seals)
        step.largest = None if largest is None else largest.buffer_info()[0]
        step.candidates = candidates
        started = time.perf_counter()
        outcome = self._library.sgrt_decoder_forward(self._handle, self._step_address)
        self._kernel_s += time.perf_counter() - started
        del held
        if outcome == 0:
            raise MemoryError(f"no memory for a step of {step.tokens} tokens")
        if outcome < 0:
            raise ValueError(f"a token id lies outside the vocabulary of {self._config.vocabulary} tokens")

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
        """Take the addresses of the pages."""
        for index, layer in enumerate(layers):
            for pages in (layer.keys, layer.values):
                if pages.dtype not in PAGE_TYPES:
                    raise DecoderUnsupported(
                        f"pages of {pages.dtype}; the CPU kernels read float32, bfloat16 and int16. "
                        "Choose --kv-cache-dtype auto or bf16"
                    )
                if not pages.is_contiguous():
                    raise ValueError(f"the pages of layer {index} are not contiguous")
                self._advise(pages)
            self._keys[index] = layer.keys.data_ptr()
            self._values[index] = layer.values.data_ptr()
        sealed = [layer.sealed for layer in layers if layer.sealed is not None]
        if sealed:
            self._sealed_layers = layers_of(sealed)
            self._seals.layers = ctypes.addressof(self._sealed_layers)
            self._seals.sealed_type = SEALED_TYPES[sealed[0].keys.dtype]
        self._step.page_tokens = layers[0].page_tokens
        self._step.page_type = PAGE_TYPES[layers[0].keys.dtype]
        self._layers = layers

    def _advise(self, pages: Tensor) -> None:
        """Large pages for all but the beginning, where memory is touched from now on."""
        small = min(_SMALL_PAGES_BYTES, pages.nbytes)
        self._library.sgrt_advise_small_pages(pages.data_ptr(), small)
        self._library.sgrt_advise_large_pages(pages.data_ptr() + small, pages.nbytes - small)


def _seal_numbers(seals: PageSeals) -> SealNumbers:
    return SealNumbers(
        sources=seals.sources.tolist(), targets=seals.targets.tolist(), own_pages=seals.own_pages.tolist()
    )
