"""Pages as a pool may hand them out: what lies in them is no number."""

from __future__ import annotations

import torch

from sgrt_kernels.layout import PagedLayer, PageShape, SealedPages, exact_layer


def unwritten_layer(
    pages: int, shape: PageShape, dtype: torch.dtype, sealed: SealedPages | None = None
) -> PagedLayer:
    """Exact pages full of NaN; of integers the codes are at random, and the scales are NaN."""
    layer = exact_layer(pages, shape, dtype=dtype, device="cpu")
    for tensor in (layer.keys, layer.values):
        if layer.is_integer:
            tensor.random_(-4095, 4096, generator=torch.Generator().manual_seed(0))
            tensor[..., -1, :].view(torch.float32).fill_(torch.nan)
        else:
            tensor.fill_(torch.nan)
    return PagedLayer(keys=layer.keys, values=layer.values, sealed=sealed)
