"""Copies the first tokens of exact pages, so that a partly shared page can be continued."""

from sgrt_kernels.ops.page_copy.dispatch import page_copy

__all__ = ["page_copy"]
