"""Sealed pages as the CPU kernels see them."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import fields

import torch

from sgrt_kernels.layout import LayoutError, PageSeals, SealedPages
from sgrt_kernels.native.structures import SealedLayerStruct, SealsStruct

SEALED_TYPES = {torch.int8: 0, torch.float8_e4m3fn: 1}


def sealed_layer(pages: SealedPages) -> SealedLayerStruct:
    """The addresses of one layer's sealed pages. Raises LayoutError for pages that are not contiguous."""
    tensors = {field.name: getattr(pages, field.name) for field in fields(pages)}
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise LayoutError(
                f"sealed pages: {name} is not contiguous; make them by sealed_pages(..., transposed_values=False)"
            )
    return SealedLayerStruct(**{name: tensor.data_ptr() for name, tensor in tensors.items()})


class Seals:
    """`SgrtSeals` of a step and all that it points to."""

    def __init__(self, layers: ctypes.Array[SealedLayerStruct], seals: PageSeals, dtype: torch.dtype) -> None:
        self._held = (
            layers,
            seals.sources.to(torch.int64).contiguous(),
            seals.targets.to(torch.int64).contiguous(),
            seals.own_pages.to(torch.int32).contiguous(),
        )
        _, sources, targets, own_pages = self._held
        self.structure = SealsStruct(
            layers=ctypes.addressof(layers),
            sources=sources.data_ptr(),
            targets=targets.data_ptr(),
            own_pages=own_pages.data_ptr(),
            count=sources.shape[0],
            max_own_pages=own_pages.shape[1],
            sealed_type=SEALED_TYPES[dtype],
        )

    @property
    def address(self) -> int:
        """Where the structure lies, while this object lives."""
        return ctypes.addressof(self.structure)


def layers_of(pages: Sequence[SealedPages]) -> ctypes.Array[SealedLayerStruct]:
    """The addresses of all layers' sealed pages."""
    return (SealedLayerStruct * len(pages))(*(sealed_layer(layer) for layer in pages))
