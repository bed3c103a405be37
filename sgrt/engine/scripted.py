"""A runner whose logits come from a script: the seam for tests of engine, streaming and server.

Everything but the model is real: scheduling, paging, masks, penalties, stops and limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from sgrt.engine.plan import Plan, Span

Script = Callable[[Sequence[int], Sequence[int]], Mapping[int, float]]
"""Prompt and output so far to the logits of the next token; what is not named has logit 0."""

_PREFERRED_LOGIT = 30.0


def continue_with(tokens: Sequence[int], *, end_token_id: int) -> Script:
    """A script that prefers `tokens` one after the other whatever the prompt, then `end_token_id` for ever.

    Which of them is next depends on the number of tokens generated alone: a mask may force
    other tokens and the script goes on.
    """
    reply = tuple(tokens)

    def script(prompt: Sequence[int], output: Sequence[int]) -> Mapping[int, float]:
        place = len(output)
        return {reply[place] if place < len(reply) else end_token_id: _PREFERRED_LOGIT}

    return script


class ScriptedRunner:
    """Runs a script under the engine's real paging: the pages hold token ids, read back through the plan.

    A paging mistake therefore changes what the script sees, as it would change a model's output.
    """

    def __init__(self, script: Script, *, vocabulary_tokens: int, num_pages: int, page_tokens: int) -> None:
        """`num_pages` counts tail pages too, where there are some."""
        self._script = script
        self._vocabulary_tokens = vocabulary_tokens
        self._page_tokens = page_tokens
        self._pages = [[_UNWRITTEN] * page_tokens for _ in range(num_pages)]
        self.num_steps = 0

    @property
    def vocabulary_tokens(self) -> int:
        """Width of the logits."""
        return self._vocabulary_tokens

    def run(self, plan: Plan) -> Tensor:
        """Logits [rows, vocabulary] float32 of the plan's wanted positions."""
        self.num_steps += 1
        for copy in plan.copies:
            count = copy.num_tokens
            target = self._pages[copy.target]
            target[:] = [*self._pages[copy.source][:count], *[_UNWRITTEN] * (self._page_tokens - count)]
        for span in plan.spans:
            self._write(span)
        logits = np.zeros((plan.num_logit_rows, self._vocabulary_tokens), np.float32)
        row = 0
        for span in plan.spans:
            seen = self._tokens_in(span)
            for offset in range(span.logits_from, len(span.tokens)):
                end = span.start + offset + 1
                prompt_end = min(end, span.prompt_tokens)
                wanted = self._script(seen[:prompt_end], seen[prompt_end:end])
                logits[row, list(wanted)] = list(wanted.values())
                row += 1
        return torch.from_numpy(logits)

    def _write(self, span: Span) -> None:
        first = span.start // self._page_tokens
        own = span.own_pages or span.pages[first:]
        for position, token in enumerate(span.tokens, span.start):
            self._pages[own[position // self._page_tokens - first]][position % self._page_tokens] = token
        if span.own_pages:
            for index in span.filled(self._page_tokens):
                self._pages[span.pages[index]][:] = self._pages[own[index - first]]

    def _tokens_in(self, span: Span) -> list[int]:
        """All tokens a query of the span reads; those of its last page are read where they were written."""
        pages = span.pages
        if span.own_pages:
            last = (span.start + len(span.tokens) - 1) // self._page_tokens
            pages = [*pages[:last], span.own_pages[last - span.start // self._page_tokens]]
        return [token for page in pages for token in self._pages[page]]


_UNWRITTEN = 0xFFFF_FFFF
