"""Exact pages of integers: 13-bit codes in int16 with a float32 scale for every token and kv head.

The CPU kernels multiply pairs of int16 twice as fast as float32 and sum them exactly; `native/integer_pages.h` draws the
tiles that their products read. An element is code * scale: as many bytes as bfloat16, and five bits more.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

TILE_TOKENS = 16
CODE_RANGE = 4095  # the largest magnitude of a code: 128 products of two fit 32 bits
SMALLEST = 1e-30  # where no number reaches it, all count as zero
_ROW_CODES = 2 * TILE_TOKENS


class Codes(NamedTuple):
    """Numbers as codes times a scale."""

    codes: Tensor  # [..., channels] float32, integers
    scales: Tensor  # [...] float32

    def numbers(self) -> Tensor:
        """The numbers, [..., channels] float32."""
        return self.codes * self.scales[..., None]


def rounded(x: Tensor) -> Codes:
    """`x` [..., channels] float32, finite, as codes with one scale over the channels."""
    largest = x.abs().amax(dim=-1)
    is_zero = largest < SMALLEST
    code_range = torch.full_like(largest, CODE_RANGE)  # by a number torch would multiply with the inverse
    inverse = (code_range / largest).masked_fill(is_zero, 0.0)
    return Codes((x * inverse[..., None]).round(), (largest / code_range).masked_fill(is_zero, 0.0))


def tiles_size(pages: int, page_tokens: int, kv_heads: int, head_dim: int) -> tuple[int, ...]:
    """The size of the int16 tensor that holds the keys, or the values, of a layer: [pages, kv_heads, tiles, rows, 32]."""
    return (pages, kv_heads, page_tokens // TILE_TOKENS, head_dim // 2 + 1, _ROW_CODES)


def write_keys(tiles: Tensor, slots: Tensor, keys: Tensor) -> None:
    """Store keys [tokens, kv_heads, head_dim] at their slots."""
    page, tile, place = _places(tiles, slots)
    codes, scales = rounded(keys)
    _key_codes(tiles)[page, :, tile, :, place] = codes.to(torch.int16).view(*codes.shape[:-1], -1, 2)
    _scales(tiles)[page, :, tile, place] = scales


def write_values(tiles: Tensor, slots: Tensor, values: Tensor) -> None:
    """Store values [tokens, kv_heads, head_dim] at their slots."""
    page, tile, place = _places(tiles, slots)
    codes, scales = rounded(values)
    _value_codes(tiles)[page, :, tile, place // 2, :, place % 2] = codes.to(torch.int16)
    _scales(tiles)[page, :, tile, place] = scales


def read_keys(tiles: Tensor, slots: Tensor) -> Codes:
    """Keys at the slots, [tokens, kv_heads, head_dim]."""
    page, tile, place = _places(tiles, slots)
    codes = _key_codes(tiles)[page, :, tile, :, place].flatten(-2)
    return Codes(codes.float(), _scales(tiles)[page, :, tile, place])


def read_values(tiles: Tensor, slots: Tensor) -> Codes:
    """Values at the slots, [tokens, kv_heads, head_dim]."""
    page, tile, place = _places(tiles, slots)
    codes = _value_codes(tiles)[page, :, tile, place // 2, :, place % 2]
    return Codes(codes.float(), _scales(tiles)[page, :, tile, place])


def _places(tiles: Tensor, slots: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of every slot its page, its tile in the page and its place in the tile."""
    page_tokens = tiles.shape[2] * TILE_TOKENS
    token = slots % page_tokens
    return slots // page_tokens, token // TILE_TOKENS, token % TILE_TOKENS


def _key_codes(tiles: Tensor) -> Tensor:
    """[pages, kv_heads, tiles, head_dim / 2, 16 tokens, 2 channels]."""
    codes = tiles[..., :-1, :]
    return codes.view(*codes.shape[:-1], TILE_TOKENS, 2)


def _value_codes(tiles: Tensor) -> Tensor:
    """[pages, kv_heads, tiles, 8 pairs of tokens, head_dim, 2 tokens]."""
    codes = tiles[..., :-1, :]
    return codes.view(*codes.shape[:-2], TILE_TOKENS // 2, 2 * codes.shape[-2], 2)


def _scales(tiles: Tensor) -> Tensor:
    """[pages, kv_heads, tiles, 16 tokens]."""
    return tiles[..., -1, :].view(torch.float32)
