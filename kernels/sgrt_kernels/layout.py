"""How keys and values lie in memory: the one description that models, kernels and the pool share."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedLayer:
    """Keys and values of one layer, in pages.

    Token `slot` of the pool lies in page `slot // page_tokens` at offset `slot % page_tokens`.
    """

    keys: Tensor  # [pages, page_tokens, kv_heads, head_dim]
    values: Tensor  # [pages, page_tokens, kv_heads, head_dim]

    @property
    def page_tokens(self) -> int:
        """Tokens a page holds."""
        return self.keys.shape[1]
