"""One output being generated: what was drawn, what may be shown, and when it ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sgrt.engine.guide import Guide
from sgrt.engine.output_text import OutputText
from sgrt.engine.seen_tokens import SeenTokens
from sgrt.engine.sequence import Sequence
from sgrt_frontend.call import Chunk, Finish, Origin, SamplingParams, StopReason, TokenInfo, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A token the sampler drew, and how it came about. `is_narrowed`: without a budget it had been another."""

    token: int
    origin: Origin
    info: TokenInfo | None = None
    is_narrowed: bool = False


class Generation:
    """The output side of a sequence. Collects what one step adds and hands it out as a chunk.

    End tokens are not part of the output and do not count; neither is a stop token, unless
    `include_stop` asks for it.
    """

    __slots__ = (
        "_ends",
        "_infos",
        "_num_forced",
        "_origins",
        "_shown",
        "_stop_ids",
        "_text",
        "_tokens",
        "allowed",
        "finish",
        "guide",
        "is_free",
        "is_plain",
        "sampling",
        "seed",
        "seen",
        "sequence",
        "started_s",
    )

    def __init__(
        self,
        sequence: Sequence,
        text: OutputText,
        *,
        seed: int,
        end_token_ids: frozenset[int],
        guide: Guide | None = None,
        allowed: NDArray[np.uint32] | None = None,
    ) -> None:
        """`allowed` is the mask row of the tokens that may be drawn; None where there is none.

        `is_free` says that any token may come at any time, `is_plain` that the largest logit is drawn.
        """
        self.sequence = sequence
        self.sampling: SamplingParams = sequence.request.sampling
        self.seed = seed
        self.guide = guide
        self.allowed = allowed
        self.is_plain = guide is None and is_plain(self.sampling)
        self.finish: Finish | None = None
        self.started_s: float | None = None
        self.seen = _seen(sequence)
        self._text = text
        self._ends = end_token_ids if guide is not None or not self.sampling.ignore_eos else frozenset()
        self._stop_ids = frozenset(self.sampling.stop_token_ids)
        self.is_free = (
            guide is None and allowed is None and (self.sampling.min_tokens == 0 or not self.ending_ids)
        )
        self._num_forced = 0
        self._tokens: list[int] = []
        self._origins: list[Origin] = []
        self._infos: list[TokenInfo] = []
        self._shown: list[str] = []

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return self.sequence.request.max_tokens - self.sequence.num_output_tokens

    @property
    def may_end(self) -> bool:
        """Whether end and stop tokens are allowed yet."""
        return self.sequence.num_output_tokens >= self.sampling.min_tokens

    @property
    def ending_ids(self) -> frozenset[int]:
        """Tokens that end this output when drawn."""
        return self._ends | self._stop_ids

    def take(self, drawn: Drawn) -> bool:
        """Take a token; sets `finish` when the output ends with it. Returns whether it is part of the output."""
        token = drawn.token
        if token in self._ends:
            was_narrowed = self.guide is not None and self.guide.was_narrowed
            self.end(StopReason.BUDGET if was_narrowed else StopReason.END_OF_TEXT, stop=token)
            return False
        is_stop = token in self._stop_ids
        is_shown = not is_stop or self.sampling.include_stop
        if is_shown:
            self._append(drawn)
        if is_stop:
            self.end(StopReason.STOP_TOKEN, stop=token)
        elif self._text.stop is not None:
            self.end(StopReason.STOP_STRING, stop=self._text.stop)
        elif self.guide is None and self.remaining == 0:
            self.end(StopReason.LENGTH)
        return is_shown

    def close_guided(self) -> None:
        """End the output if its constraint is complete or its budget is used up."""
        if self.guide is None or self.finish is not None:
            return
        if self.guide.is_exhausted and not self.guide.was_narrowed:
            self.end(StopReason.END_OF_TEXT)
        elif self.guide.is_exhausted or self.remaining == 0:
            self.end(StopReason.BUDGET)

    def end(self, reason: StopReason, *, stop: str | int | None = None) -> None:
        """Finish, showing the text that was held back."""
        self._shown.append(self._text.finish())
        sequence = self.sequence
        usage = Usage(
            prompt_tokens=sequence.num_prompt_tokens,
            cached_tokens=sequence.cached_tokens or 0,
            output_tokens=sequence.num_output_tokens,
            forced_tokens=self._num_forced,
        )
        self.finish = Finish(reason=reason, usage=usage, stop=stop)

    def chunk(self) -> Chunk | None:
        """What was added since the last chunk; None when there is nothing to tell."""
        text = "".join(self._shown)
        if not self._tokens and not text and self.finish is None:
            return None
        chunk = Chunk(
            index=self.sequence.index,
            token_ids=tuple(self._tokens),
            text=text,
            origins=tuple(self._origins),
            logprobs=tuple(self._infos),
            finish=self.finish,
            cached_tokens=self.sequence.cached_tokens,
            queued_s=self._queued_s,
        )
        self._tokens, self._origins, self._infos, self._shown = [], [], [], []
        return chunk

    @property
    def _queued_s(self) -> float | None:
        return None if self.started_s is None else self.started_s - self.sequence.request.arrival_s

    def _append(self, drawn: Drawn) -> None:
        token = drawn.token
        self.sequence.append(token)
        self._tokens.append(token)
        self._origins.append(drawn.origin)
        if drawn.info is not None:
            self._infos.append(drawn.info)
        if drawn.origin is Origin.FORCED:
            self._num_forced += 1
        if self.seen is not None:
            self.seen.take(token)
        self._shown.append(self._text.feed((token,), may_stop=self.may_end))


def is_plain(sampling: SamplingParams) -> bool:
    """Whether the largest logit is all there is to the next token."""
    return (
        sampling.temperature == 0
        and sampling.logprobs is None
        and not sampling.logit_bias
        and not has_penalties(sampling)
    )


def has_penalties(sampling: SamplingParams) -> bool:
    """Whether any penalty on repeated tokens is set."""
    return (
        sampling.repetition_penalty != 1.0
        or sampling.presence_penalty != 0.0
        or sampling.frequency_penalty != 0.0
    )


def _seen(sequence: Sequence) -> SeenTokens | None:
    """What penalties need to know; only that on repetition counts the prompt."""
    sampling = sequence.request.sampling
    if not has_penalties(sampling):
        return None
    return SeenTokens(sequence.request.prompt if sampling.repetition_penalty != 1.0 else ())
