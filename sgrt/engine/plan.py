"""What one forward pass computes, in plain ints: the scheduler's decision, the runner's input."""

from __future__ import annotations

from dataclasses import dataclass, field


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

    Where full pages are sealed, `pages` are sealed ones, and the tokens go to the exact
    `own_pages[(start + i) // page_tokens - start // page_tokens]`; what the span fills is sealed into `pages`.
    A query reads the page it lies in exact, earlier ones sealed.
    """

    tokens: list[int]
    start: int
    pages: list[int]
    own_pages: list[int] = field(default_factory=list)
    logits_from: int
    prompt_tokens: int

    def filled(self, page_tokens: int) -> range:
        """Numbers of the sequence's pages that are full after this pass and were not before."""
        return range(self.start // page_tokens, (self.start + len(self.tokens)) // page_tokens)


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

    @property
    def is_decode(self) -> bool:
        """Whether every span is one token whose logits are wanted."""
        return all(len(span.tokens) == 1 and span.logits_from == 0 for span in self.spans)
