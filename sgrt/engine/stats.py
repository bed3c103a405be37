"""Counters of a running engine, for metrics and tests."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)  # what is counted apart


@dataclass(slots=True, kw_only=True)
class EngineStats:
    """Totals since start, and sizes as of the last step. The engine's thread is the only writer."""

    steps: int = 0
    forward_tokens: int = 0  # tokens computed by forward passes, drafts included
    prompt_tokens: int = 0  # prompt tokens of admitted sequences
    cached_tokens: int = 0  # of which came from the cache
    computed_prompt_tokens: int = 0  # prompt tokens computed by forward passes, again after a preemption too
    output_tokens: int = 0
    forced_tokens: int = 0  # output tokens that the constraint left no choice about
    draft_tokens: int = 0  # forced text proposed to a forward pass
    accepted_draft_tokens: int = 0
    preemptions: int = 0
    finished: int = 0
    corrupted: int = 0  # jobs ended because the model's logits were no numbers
    evicted_pages: int = 0
    mask_s: float = 0.0
    forward_s: float = 0.0
    sample_s: float = 0.0
    schedule_s: float = 0.0
    commit_s: float = 0.0
    queue_length: int = 0
    preparing: int = 0  # jobs whose grammar is being compiled
    running: int = 0
    pages_total: int = 0
    pages_used: int = 0  # held by a sequence or by the tree
    tail_pages_total: int = 0  # exact pages beside sealed ones; 0 where pages are not sealed
    tail_pages_used: int = 0
    pages_cached: int = 0  # held by the tree
    pages_needed: int = 0  # held by a sequence or promised to its prompt, or kept for calls to come
    peak_pages_needed: int = 0
    steps_by_tokens: list[int] = field(
        default_factory=lambda: [0] * (len(STEP_TOKENS) + 1)
    )  # at most, and more

    def note_forward(self, tokens: int) -> None:
        """A forward pass is about to compute `tokens`."""
        self.forward_tokens += tokens
        self.steps_by_tokens[bisect_left(STEP_TOKENS, tokens)] += 1

    def metrics(self) -> dict[str, float]:
        """The counters by metric stem; those that only grow end in `_total`."""
        return {
            "num_requests_running": self.running,
            "num_requests_waiting": self.queue_length + self.preparing,
            "num_requests_waiting_for_capacity": self.queue_length,
            "num_requests_waiting_for_grammar": self.preparing,
            "corrupted_requests_total": self.corrupted,
            "kv_cache_usage_perc": self.pages_used / self.pages_total if self.pages_total else 0.0,
            "kv_pages": self.pages_total,
            "kv_pages_used": self.pages_used,
            "kv_tail_pages": self.tail_pages_total,
            "kv_tail_pages_used": self.tail_pages_used,
            "kv_pages_cached": self.pages_cached,
            "engine_steps_total": self.steps,
            "forward_tokens_total": self.forward_tokens,
            "prefix_cache_queries_total": self.prompt_tokens,
            "prefix_cache_hits_total": self.cached_tokens,
            "forced_tokens_total": self.forced_tokens,
            "draft_tokens_total": self.draft_tokens,
            "accepted_draft_tokens_total": self.accepted_draft_tokens,
            "num_preemptions_total": self.preemptions,
            "evicted_pages_total": self.evicted_pages,
            "mask_seconds_total": self.mask_s,
            "forward_seconds_total": self.forward_s,
            "sample_seconds_total": self.sample_s,
            "schedule_seconds_total": self.schedule_s,
            "commit_seconds_total": self.commit_s,
        }
