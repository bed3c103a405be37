"""Copies the first tokens of exact pages in plain torch."""

from __future__ import annotations

import torch
from torch import Tensor

from sgrt_kernels.layout import PagedLayer


def page_copy(layer: PagedLayer, sources: Tensor, targets: Tensor, lengths: Tensor) -> None:
    """Copy the first `lengths` tokens of `sources` into `targets`; see the op."""
    offsets = torch.arange(layer.page_tokens, device=layer.keys.device)
    copies, token = torch.nonzero(offsets[None] < lengths[:, None], as_tuple=True)
    for pages in (layer.keys, layer.values):
        pages[targets[copies], token] = pages[sources[copies], token]
