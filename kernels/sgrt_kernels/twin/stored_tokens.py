"""Keys and values of one sequence, and their products as the kernels round them: floats, or integers with scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from sgrt_kernels.integer_pages import SMALLEST, Codes, read_keys, read_values, rounded
from sgrt_kernels.layout import PagedLayer
from sgrt_kernels.twin.arithmetic import fused

EXACT_CHANNELS = 128  # whose products of codes the kernels sum in 32 bits
WEIGHT_RANGE = 8191


class StoredTokens(Protocol):
    """The tokens of a sequence, in its pages."""

    def scores(self, query: Tensor, block: slice) -> Tensor:
        """Products of query [rows, kv_heads, group, head_dim] with the block's keys, [rows, kv_heads, group, block]."""
        ...

    def weighted(self, weights: Tensor, block: slice, out: Tensor) -> Tensor:
        """`out` [rows, kv_heads, group, head_dim] and the block's values, weighted by [rows, kv_heads, group, block]."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatTokens:
    """Keys and values [context, kv_heads, head_dim] float32; sums run in rising order."""

    keys: Tensor
    values: Tensor

    def scores(self, query: Tensor, block: slice) -> Tensor:
        """Channels are added one by one."""
        by_channel = self.keys[block].permute(2, 1, 0)  # [head_dim, kv_heads, block]
        scores = query.new_zeros((*query.shape[:-1], by_channel.shape[-1]))
        for channel, keys in enumerate(by_channel):
            scores = fused(query[..., channel, None], keys[None, :, None, :], scores)
        return scores

    def weighted(self, weights: Tensor, block: slice, out: Tensor) -> Tensor:
        """Tokens are added one by one."""
        for token, values in enumerate(self.values[block]):
            out = fused(weights[..., token, None], values[None, :, None, :], out)
        return out


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerTokens:
    """Keys and values [context, kv_heads, head_dim] as codes; sums of products are exact, so they have no order."""

    keys: Codes
    values: Codes

    def scores(self, query: Tensor, block: slice) -> Tensor:
        """The query is rounded to codes as keys are, with a scale for each row."""
        codes, scales = rounded(query.clamp(torch.finfo().min, torch.finfo().max))
        keys = self.keys.codes[block]
        sums = [
            _exact("rhgd,thd->rhgt", codes[..., part], keys[..., part])
            for part in _slices(query.shape[-1], EXACT_CHANNELS)
        ]
        scores = sums[0]
        for more in sums[1:]:
            scores = scores + more
        return scores * self.keys.scales[block].T[None, :, None, :] * scales[..., None]

    def weighted(self, weights: Tensor, block: slice, out: Tensor) -> Tensor:
        """The weights take the values' scales in; a block of them is rounded with a scale for each row."""
        weights = weights * self.values.scales[block].T[None, :, None, :]
        largest = weights.amax(dim=-1)
        weight_range = torch.full_like(largest, WEIGHT_RANGE)
        inverse = (weight_range / largest).masked_fill(largest < SMALLEST, 0.0)
        unit = largest * (torch.ones_like(largest) / weight_range)
        sums = _exact("rhgt,thd->rhgd", (weights * inverse[..., None]).round(), self.values.codes[block])
        return fused(sums, unit[..., None], out)


def stored_tokens(layer: PagedLayer, pages: Tensor, context: int) -> StoredTokens:
    """The first `context` tokens of the sequence whose pages these are."""
    tokens = torch.arange(context)
    page = pages.to(torch.int64)[tokens // layer.page_tokens]
    slots = page * layer.page_tokens + tokens % layer.page_tokens
    if layer.is_integer:
        return IntegerTokens(keys=read_keys(layer.keys, slots), values=read_values(layer.values, slots))
    keys, values = layer.at_slots(slots)
    return FloatTokens(keys=keys.float(), values=values.float())


def _exact(equation: str, left: Tensor, right: Tensor) -> Tensor:
    """The einsum of integers, rounded once to float32: float64 holds the sums exactly."""
    return torch.einsum(equation, left.double(), right.double()).float()


def _slices(size: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]
