"""Copies the first tokens of exact pages on a GPU."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from sgrt_kernels.layout import PagedLayer

_BLOCK = 1024


@triton.jit
def page_copy_kernel(
    keys,
    values,  # [pages, page_tokens, token_width], contiguous
    sources,
    targets,
    lengths,  # [copies] int64
    page_width,  # elements of a page
    token_width,
    BLOCK: tl.constexpr,
):
    """Grid: (copies, blocks of a page)."""
    copy = tl.program_id(0)
    source, target = tl.load(sources + copy).to(tl.int64), tl.load(targets + copy).to(tl.int64)
    element = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_copied = (element < tl.load(lengths + copy) * token_width) & (element < page_width)
    k = tl.load(keys + source * page_width + element, mask=is_copied, other=0.0)
    v = tl.load(values + source * page_width + element, mask=is_copied, other=0.0)
    tl.store(keys + target * page_width + element, k, mask=is_copied)
    tl.store(values + target * page_width + element, v, mask=is_copied)


def page_copy(layer: PagedLayer, sources: Tensor, targets: Tensor, lengths: Tensor) -> None:
    """Copy the first `lengths` tokens of `sources` into `targets`; see the op."""
    if sources.numel() == 0:
        return
    _, page_tokens, kv_heads, head_dim = layer.keys.shape
    page_width = page_tokens * kv_heads * head_dim
    page_copy_kernel[(sources.shape[0], triton.cdiv(page_width, _BLOCK))](
        layer.keys,
        layer.values,
        sources,
        targets,
        lengths,
        page_width,
        kv_heads * head_dim,
        BLOCK=_BLOCK,
        num_warps=4,
    )
