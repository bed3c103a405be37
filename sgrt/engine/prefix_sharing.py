"""When sequences that decode share what they read: the decision, in plain ints, before each step on a GPU.

Sequences that came from one prefix of the radix tree hold the same pages in front. Read once for many of them these
cost less memory traffic, but also two launches more in every layer: worth it from some bytes saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sgrt.cache.pool import KVPool
from sgrt.engine.plan import Span
from sgrt.model.config import ModelConfig
from sgrt_kernels.configurations import attention_config, tree_rows_per_item
from sgrt_kernels.ops.tree_attention import PlannedTree, plan_tree

# Of one layer: what an H200 reads in 8 microseconds, the time of the launches and of the partials between them.
_WORTHWHILE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixSharing:
    """Decides which steps attend over a tree, and plans it."""

    page_tokens: int
    rows_per_item: int
    fewest_pages_saved: int

    @classmethod
    def of(cls, config: ModelConfig, pool: KVPool) -> PrefixSharing | None:
        """What suits a model and its pool; None for a model whose layers all look through windows."""
        if all(layer.window is not None for layer in config.layers):
            return None
        group = config.heads // config.kv_heads
        tuned = attention_config(
            pool.device,
            head_dim=config.head_dim,
            group=group,
            page=pool.page_tokens,
            dtype=pool.sealed_dtype or pool.dtype,
        )
        return cls(
            page_tokens=pool.page_tokens,
            rows_per_item=tree_rows_per_item(tuned, group),
            fewest_pages_saved=-(-_WORTHWHILE_BYTES // pool.layer_page_bytes),
        )

    def tree(self, spans: Sequence[Span]) -> PlannedTree | None:
        """The tree of `spans`, of one token each; None where decoding them one by one costs no more."""
        if len({span.pages[0] for span in spans}) == len(spans):
            return None  # the usual case costs a look at each
        planned = plan_tree(
            [span.pages for span in spans],
            [span.start // self.page_tokens for span in spans],
            page_tokens=self.page_tokens,
            rows_per_item=self.rows_per_item,
        )
        return planned if planned.pages_saved >= self.fewest_pages_saved else None
