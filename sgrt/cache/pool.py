"""The KV pool: the only owner of the tensors that keys and values lie in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sgrt_kernels.integer_pages import TILE_TOKENS
from sgrt_kernels.layout import INTEGER_DTYPE, PagedLayer, PageShape, SealedPages, sealed_pages

_LINE_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShape:
    """Sizes of a pool. All layers are alike. Where pages are sealed, `num_tail_pages` exact ones lie beside them."""

    num_layers: int
    num_pages: int
    page_tokens: int
    kv_heads: int
    head_dim: int
    num_tail_pages: int = 0

    def bytes_per_token(self, dtype: torch.dtype) -> int:
        """Bytes that the keys and values of one token take in all layers together."""
        return self.num_layers * self.page_shape.exact_bytes(dtype) // self.page_tokens

    @property
    def page_shape(self) -> PageShape:
        """What a page of one layer holds."""
        return PageShape(page_tokens=self.page_tokens, kv_heads=self.kv_heads, head_dim=self.head_dim)

    @property
    def sealed_page_bytes(self) -> int:
        """Bytes of one sealed page, all layers together."""
        return self.num_layers * self.page_shape.sealed_bytes()


class KVPool:
    """Pages of keys and values of all layers; page numbers are those of the `PageAllocator`.

    With a `sealed_dtype` the pool's pages are sealed ones of that dtype, and its tail pages exact ones of `dtype`.
    With `has_scratch` a page of each kind lies behind those the allocator knows: padding of a batch writes there, and
    nobody reads it.

    Pages start as zeros: a kernel may read past a sequence's last token inside its last page, and a
    masked weight of 0 times uninitialized memory could be NaN. Zeroed memory is not touched by the
    system until it is written, so a large pool costs nothing before it is used.
    """

    def __init__(
        self,
        shape: PoolShape,
        *,
        dtype: torch.dtype,
        sealed_dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
        has_scratch: bool = False,
    ) -> None:
        self.shape = shape
        self._scratch_pages = int(has_scratch)
        self.sealed_dtype = sealed_dtype
        self.first_exact_page = 0 if sealed_dtype is None else shape.num_pages
        exact_pages = shape.num_pages if sealed_dtype is None else shape.num_tail_pages
        self._storage: Tensor = _untouched_zeros(
            (shape.num_layers, 2, *shape.page_shape.exact_size(exact_pages + self._scratch_pages, dtype)),
            dtype,
            torch.device(device),
        )
        # On a CPU pages are copied by numpy: for so few bytes torch's threads cost more than they save.
        on_cpu = self._storage.device.type == "cpu"
        self._host_bytes: NDArray[np.uint8] | None = (
            self._storage.view(torch.uint8).numpy() if on_cpu else None
        )
        self.layers: tuple[PagedLayer, ...] = tuple(
            PagedLayer(keys=layer[0], values=layer[1], sealed=self._sealed_pages()) for layer in self._storage
        )

    def _sealed_pages(self) -> SealedPages | None:
        if self.sealed_dtype is None:
            return None
        return sealed_pages(
            self.shape.num_pages + self._scratch_pages,
            self.shape.page_shape,
            dtype=self.sealed_dtype,
            device=self.device,
            transposed_values=self.device.type == "cuda",
            zeros_of=_untouched_zeros,
        )

    @property
    def page_tokens(self) -> int:
        """Tokens a page holds."""
        return self.shape.page_tokens

    @property
    def num_bytes(self) -> int:
        """Bytes of all pages."""
        sealed_pages = 0 if self.sealed_dtype is None else self.shape.num_pages + self._scratch_pages
        sealed = sealed_pages * self.shape.sealed_page_bytes
        return self._storage.nbytes + sealed

    @property
    def layer_page_bytes(self) -> int:
        """Bytes that one layer reads of a full page."""
        shape = self.shape.page_shape
        return shape.exact_bytes(self.dtype) if self.sealed_dtype is None else shape.sealed_bytes()

    @property
    def exact_scratch_page(self) -> int:
        """The exact page that padding writes to, counted from the first exact page."""
        assert self._scratch_pages, "the pool was made without scratch pages"
        return self._storage.shape[2] - 1

    @property
    def scratch_page(self) -> int:
        """The page that a page table of padding names: a sealed one where full pages are sealed."""
        return self.exact_scratch_page if self.sealed_dtype is None else self.shape.num_pages

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of keys and values in exact pages."""
        return self._storage.dtype

    @property
    def device(self) -> torch.device:
        """Where the pages lie."""
        return self._storage.device

    def copy_pages(self, copies: Sequence[tuple[int, int, int]]) -> None:
        """For each `(source, target, num_tokens)` copy the first tokens of an exact page, in all layers, in order.

        Pages of integers are copied by whole tiles.
        """
        first = self.first_exact_page
        for source, target, num_tokens in copies:
            read, written = (
                self._beginning(source - first, num_tokens),
                self._beginning(target - first, num_tokens),
            )
            if self._host_bytes is not None:
                self._host_bytes[written] = self._host_bytes[read]
            else:
                self._storage[written] = self._storage[read]

    def _beginning(self, page: int, num_tokens: int) -> tuple[slice | int, ...]:
        """The first tokens of a page, as an index of the storage."""
        if self.dtype == INTEGER_DTYPE:
            return (slice(None), slice(None), page, slice(None), slice(-(-num_tokens // TILE_TOKENS)))
        return (slice(None), slice(None), page, slice(num_tokens))


def _untouched_zeros(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros that take no memory until they are written.

    numpy asks the system for zeroed memory; torch asks for memory and then writes zeros, which for a pool of
    several GB takes seconds and all of it. They begin with a cache line: a vector that lies in two is read twice.
    """
    if device.type != "cpu":
        return torch.zeros(size, dtype=dtype, device=device)
    num_bytes = math.prod(size) * dtype.itemsize
    storage = np.zeros(num_bytes + _LINE_BYTES, dtype=np.uint8)
    first = -storage.ctypes.data % _LINE_BYTES
    return torch.from_numpy(storage[first : first + num_bytes]).view(dtype).view(size)
