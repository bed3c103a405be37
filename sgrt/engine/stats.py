"""Counters of a running engine, for metrics and tests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class EngineStats:
    """Totals since start, and sizes as of the last step. The engine's thread is the only writer."""

    steps: int = 0
    forward_tokens: int = 0  # tokens computed by forward passes, drafts included
    prompt_tokens: int = 0  # prompt tokens of admitted sequences
    cached_tokens: int = 0  # of which came from the cache
    output_tokens: int = 0
    forced_tokens: int = 0  # output tokens that the constraint left no choice about
    draft_tokens: int = 0  # forced text proposed to a forward pass
    accepted_draft_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
    evicted_pages: int = 0
    mask_s: float = 0.0
    forward_s: float = 0.0
    sample_s: float = 0.0
    schedule_s: float = 0.0
    commit_s: float = 0.0
    queue_length: int = 0
    running: int = 0
    pages_total: int = 0
    pages_used: int = 0  # held by a sequence or by the tree
    pages_cached: int = 0  # held by the tree

    @property
    def cache_hit_rate(self) -> float:
        """Cached prompt tokens per prompt token."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0
