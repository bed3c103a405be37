"""What one forward pass computes, in plain ints: the scheduler's decision, the runner's input."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCopy:
    """Before the pass, copy the first `num_tokens` tokens of page `source` to page `target`."""

    source: int
    target: int
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive tokens of one sequence to compute.

    `tokens[i]` stands at position `start + i`; its keys and values go to page
    `pages[(start + i) // page_tokens]`. All earlier positions lie in `pages` already. Logits are wanted
    for `tokens[logits_from:]`. The first `prompt_tokens` positions are the prompt (no model needs to
    know; scripts and traces do).
    """

    tokens: list[int]
    start: int
    pages: list[int]
    logits_from: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One forward pass. Logit rows come back in the order of the spans, and within a span by position."""

    spans: tuple[Span, ...]
    copies: tuple[PageCopy, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens the pass computes."""
        return sum(len(span.tokens) for span in self.spans)

    @property
    def num_logit_rows(self) -> int:
        """Rows of logits that are wanted."""
        return sum(len(span.tokens) - span.logits_from for span in self.spans)
