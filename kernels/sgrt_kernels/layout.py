"""How keys and values lie in memory: the one description that models, kernels and the pool share.

A layer has *exact* pages in the dtype of the computation and, where the cache is quantized, *sealed* pages beside
them. The page a sequence is writing is exact; a full page is sealed once and never changes. A query reads the page it
lies in exact and earlier pages sealed, whatever chunk it came in, so a cached prefix and a computed one read alike.

        sealed page 0   sealed page 1   exact page
        [ 0 ... 31 ]    [ 32 ... 63 ]   [ 64 ... 70 ]  <- the query at 70 reads this

Exact pages hold floats, or (for the CPU kernels) integers with scales: `integer_pages`. Shapes are logical: a GPU pool may order the memory of a page differently (`torch.permute`d views), the kernels
take strides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sgrt_kernels.integer_pages import TILE_TOKENS, read_keys, read_values, tiles_size
from sgrt_kernels.scale_code import decode_scales

INTEGER_DTYPE = torch.int16  # of exact pages in the tiles of `integer_pages`
SEALED_DTYPES = (torch.int8, torch.float8_e4m3fn)
LARGEST_KEY_VALUE = 65504.0  # what may be stored; half-precision kernels read it without overflow


def storable(x: Tensor) -> Tensor:
    """`x` as a page may hold it: NaN becomes 0, infinities and what is too large LARGEST_KEY_VALUE."""
    return torch.nan_to_num(x, nan=0.0).clamp(-LARGEST_KEY_VALUE, LARGEST_KEY_VALUE)


class LayoutError(ValueError):
    """Pages of a shape or dtype that the kernels cannot hold."""


def code_range(dtype: torch.dtype) -> float:
    """The largest magnitude a sealed element of `dtype` takes: 127 for int8 (symmetric), 448 for float8_e4m3fn."""
    if dtype == torch.int8:
        return 127.0
    if dtype == torch.float8_e4m3fn:
        return 448.0
    raise LayoutError(f"pages cannot be sealed as {dtype}: use one of {', '.join(map(str, SEALED_DTYPES))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageShape:
    """What a page of one layer holds."""

    page_tokens: int
    kv_heads: int
    head_dim: int

    def exact_size(self, pages: int, dtype: torch.dtype) -> tuple[int, ...]:
        """Size of a tensor of exact pages: [pages, page_tokens, kv_heads, head_dim], or tiles where they hold integers.

        Raises LayoutError for pages of integers that are no whole tiles.
        """
        if dtype != INTEGER_DTYPE:
            return (pages, self.page_tokens, self.kv_heads, self.head_dim)
        if self.page_tokens % TILE_TOKENS or self.head_dim % 2:
            raise LayoutError(
                f"pages of {self.page_tokens} tokens and {self.head_dim} channels cannot hold int16: tokens come by "
                f"{TILE_TOKENS}, channels by 2"
            )
        return tiles_size(pages, self.page_tokens, self.kv_heads, self.head_dim)

    def exact_bytes(self, dtype: torch.dtype) -> int:
        """Bytes of one exact page of one layer, keys and values together."""
        return 2 * math.prod(self.exact_size(1, dtype)) * dtype.itemsize

    def sealed_bytes(self) -> int:
        """Bytes of one sealed page of one layer: a byte per element, and the scales and offsets beside them."""
        elements = 2 * self.page_tokens * self.kv_heads * self.head_dim
        key_scales_and_offsets = 2 * self.kv_heads * self.head_dim + 8 * self.kv_heads
        value_scales = 2 * self.page_tokens * self.kv_heads
        return elements + key_scales_and_offsets + value_scales


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedPages:
    """Full pages of one layer, quantized; scales and offsets lie with the page and are measured from what it holds.

        key   = keys * decode_scales(key_scales, key_scale_bases) + key_offsets * key_offset_scales
        value = values * value_scales

    A channel of the keys has its own scale and midpoint within a page, because a few channels are far larger than
    the rest and many are far from zero; values have one scale per token and head. What the codes of a page's keys are
    relative to is kept in float32, so that keys of another magnitude get the same codes.
    """

    keys: Tensor  # [pages, page_tokens, kv_heads, head_dim] int8 or float8_e4m3fn
    key_scales: Tensor  # [pages, kv_heads, head_dim] uint8, see scale_code
    key_scale_bases: Tensor  # [pages, kv_heads] float32
    key_offsets: Tensor  # [pages, kv_heads, head_dim] int8
    key_offset_scales: Tensor  # [pages, kv_heads] float32
    values: Tensor  # [pages, page_tokens, kv_heads, head_dim], the keys' dtype
    value_scales: Tensor  # [pages, page_tokens, kv_heads] bfloat16

    @property
    def page_tokens(self) -> int:
        """Tokens a page holds."""
        return self.keys.shape[1]

    def dequantized_keys(self, pages: Tensor) -> Tensor:
        """Keys of `pages` [...] int64 as float32 [..., page_tokens, kv_heads, head_dim]."""
        scales = decode_scales(self.key_scales[pages], self.key_scale_bases[pages])
        offsets = self.key_offsets[pages].to(torch.float32) * self.key_offset_scales[pages][..., None]
        return self.keys[pages].to(torch.float32) * scales.unsqueeze(-3) + offsets.unsqueeze(-3)

    def dequantized_values(self, pages: Tensor) -> Tensor:
        """Values of `pages` [...] int64 as float32 [..., page_tokens, kv_heads, head_dim]."""
        return self.values[pages].to(torch.float32) * self.value_scales[pages].to(torch.float32)[..., None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedLayer:
    """Keys and values of one layer, in pages.

    Token `slot` of the pool lies in page `slot // page_tokens` at offset `slot % page_tokens`.
    """

    keys: Tensor  # [pages, page_tokens, kv_heads, head_dim]; of integers: tiles, see `integer_pages`
    values: Tensor  # as keys
    sealed: SealedPages | None = None  # present where full pages are quantized; its page ids are their own

    @property
    def is_integer(self) -> bool:
        """Whether the pages hold integers and scales."""
        return self.keys.dtype == INTEGER_DTYPE

    @property
    def page_tokens(self) -> int:
        """Tokens a page holds."""
        return self.keys.shape[2] * TILE_TOKENS if self.is_integer else self.keys.shape[1]

    @property
    def kv_heads(self) -> int:
        """Heads of the keys and of the values."""
        return self.keys.shape[1] if self.is_integer else self.keys.shape[2]

    @property
    def head_dim(self) -> int:
        """Channels of a head."""
        return 2 * (self.keys.shape[3] - 1) if self.is_integer else self.keys.shape[3]

    def at_slots(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and the values at the slots [...], [..., kv_heads, head_dim] each; integers as float32."""
        if self.is_integer:
            size = (*slots.shape, self.kv_heads, self.head_dim)
            keys, values = read_keys(self.keys, slots.flatten()), read_values(self.values, slots.flatten())
            return keys.numbers().view(size), values.numbers().view(size)
        page, token = slots // self.page_tokens, slots % self.page_tokens
        return self.keys[page, token], self.values[page, token]

    def in_pages(self, pages: Tensor) -> tuple[Tensor, Tensor]:
        """The same of whole pages [...], [..., page_tokens, kv_heads, head_dim] each."""
        if not self.is_integer:
            return self.keys[pages], self.values[pages]
        tokens = torch.arange(self.page_tokens, device=pages.device)
        return self.at_slots(pages[..., None] * self.page_tokens + tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSeals:
    """What a step over sealed pages needs beside the page table, which then names sealed pages.

    A step writes its tokens into exact pages, seals those it fills, then attends:

        own_pages[i, m]   the exact page in which sequence i keeps page first_own_page + m, where
                          first_own_page = (context_length - chunk_length) // page_tokens
    """

    sources: Tensor  # [seals] int64, exact pages full after this step's writes
    targets: Tensor  # [seals] int64, the sealed pages they are quantized into, all different
    own_pages: Tensor  # [sequences, max_own_pages] int32; entries past a sequence's last page are 0
    # [1] int32, how many entries count; what follows is padding, and pairs pages that nobody reads. None: all count.
    count: Tensor | None = None


def exact_layer(
    pages: int, shape: PageShape, *, dtype: torch.dtype, device: torch.device | str
) -> PagedLayer:
    """A layer of `pages` exact pages, zeroed. Raises LayoutError where pages of this shape cannot hold `dtype`."""
    size = shape.exact_size(pages, dtype)
    return PagedLayer(
        keys=torch.zeros(size, dtype=dtype, device=device),
        values=torch.zeros(size, dtype=dtype, device=device),
    )


def sealed_pages(
    pages: int,
    shape: PageShape,
    *,
    dtype: torch.dtype,
    device: torch.device | str,
    transposed_values: bool = False,
    zeros_of: Callable[[tuple[int, ...], torch.dtype, torch.device], Tensor] | None = None,
) -> SealedPages:
    """`pages` sealed pages of one layer, zeroed; `zeros_of(size, dtype, device)` makes the memory.

    With `transposed_values` a (page, head) is contiguous, keys token by token and values channel by channel, the
    order in which tensor cores read both operands without shuffles. Raises LayoutError for a dtype not in
    SEALED_DTYPES.
    """
    code_range(dtype)
    tokens, heads, channels = shape.page_tokens, shape.kv_heads, shape.head_dim

    def zeros(size: tuple[int, ...], kind: torch.dtype) -> Tensor:
        if zeros_of is not None:
            return zeros_of(size, kind, torch.device(device))
        return torch.zeros(size, dtype=kind, device=device)

    if transposed_values:
        keys = zeros((pages, heads, tokens, channels), dtype).permute(0, 2, 1, 3)
        values = zeros((pages, heads, channels, tokens), dtype).permute(0, 3, 1, 2)
        value_scales = zeros((pages, heads, tokens), torch.bfloat16).permute(0, 2, 1)
    else:
        keys = zeros((pages, tokens, heads, channels), dtype)
        values = zeros((pages, tokens, heads, channels), dtype)
        value_scales = zeros((pages, tokens, heads), torch.bfloat16)
    return SealedPages(
        keys=keys,
        key_scales=zeros((pages, heads, channels), torch.uint8),
        key_scale_bases=zeros((pages, heads), torch.float32),
        key_offsets=zeros((pages, heads, channels), torch.int8),
        key_offset_scales=zeros((pages, heads), torch.float32),
        values=values,
        value_scales=value_scales,
    )
